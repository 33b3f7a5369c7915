"""The commands of ``tinytrain``: one module each, imported only if it is called.

A module has ``DESCRIPTION``, ``EXAMPLES``, ``add_arguments(parser)`` and ``run(arguments)``. It imports
nothing heavy before ``run``, so that ``--help`` is fast.
"""
