"""The smallest engine that calls every hook of the contract for real.

It is the place to look up how an engine integrates `platform_abc`: each hook is called as
`current_platform.hook(...)`, with `current_platform` imported late, in the process and at the moment
that `platform_abc.timeline` says. Importing this package, or any of its modules but `custom_ops`,
chooses no platform.
"""
