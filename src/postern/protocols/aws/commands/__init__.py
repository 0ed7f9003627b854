"""Commands of the AWS CLI, as scripts have them: their words, and their options as parameters of operations."""
