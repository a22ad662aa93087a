"""What an engine notices of the hooks it calls: which raises, hangs, crashes, what it changes, and in which order."""
