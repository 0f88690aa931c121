"""What is checked about the data before anything trains on them, and the page that shows it.

findings.json    each check: its value, its limits and the verdict; images of each class; near-duplicates
report.html      the same for people, with thumbnails: one file that loads nothing
passed.json      the split that may be trained on; absent where a limit stops the run
"""
