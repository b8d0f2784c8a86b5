"""The command line: `certify.cli.main` holds the group, one module holds each command.

Start-up is part of what a person feels, so these modules import only click and the standard library at the top;
numbers, tables and readers are imported by the functions that need them.
"""
