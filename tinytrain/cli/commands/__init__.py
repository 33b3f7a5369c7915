"""The commands of ``tinytrain``: one module each, imported when it is called.

A module has ``DESCRIPTION``, ``EXAMPLES``, ``add_arguments(parser)`` and ``run(arguments)``. Nothing
heavy is imported before ``run``, so that ``--help`` answers at once.
"""
