"""The root of what can go wrong with the stack; each kind says what may be done next."""


class StackError(Exception):
    """`exit_code` is what `python -m stack` ends with: 2 when nothing was started, 1 otherwise."""

    exit_code = 1
