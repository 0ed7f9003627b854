"""The web application in Chromium: what it loads, how soon it can be used, and how quick it is with much data."""
