"""What the protocols of AWS share: signatures (SigV4), JSON messages, endpoints, and identities.

`sigv4` computes signatures, `sigv4_verification` checks those of clients at the gateway, `target` signs at the agent.
`aws_json` reads requests and writes errors of the AWS JSON protocols.
"""
