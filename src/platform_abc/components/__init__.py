"""What the pickers' answers have to be: one module per kind of component.

A picker returns a dotted name; the class behind it derives from the ABC of its module here. Importing
any of these modules loads no torch.
"""
