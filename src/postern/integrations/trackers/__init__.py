"""Issue trackers: Jira (Cloud and Data Center), GitHub and GitLab."""
