"""A platform package that asks the runtime for the device's name when it is imported."""
