"""Conversion of stored objects: from the form that an earlier release wrote to the present one."""
