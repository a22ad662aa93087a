"""The checks, one family a module; `conformance.registry.all_checks` imports them all.

A check asks the platform through its context and blames it in its own words. None of these modules
imports torch or an engine when it is imported.
"""
