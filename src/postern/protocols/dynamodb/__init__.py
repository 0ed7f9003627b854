"""Amazon DynamoDB, and DynamoDB Streams: AWS JSON over HTTP.

`dialect` judges operations and PartiQL, `wire` reads requests and masks items, `queries` makes requests of `exec` and
of the catalogue, `recorded` reads recordings.
"""
