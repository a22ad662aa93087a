"""Child processes, and the watch that ends an engine where one of them, or a hook, does not answer."""
