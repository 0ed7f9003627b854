"""Bodies about runbooks, and about issues in a tracker."""
