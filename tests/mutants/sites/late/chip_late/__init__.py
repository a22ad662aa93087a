"""A platform package that works only where torch was imported before it."""
