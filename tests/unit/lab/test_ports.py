"""Servers of tests that run at the same time want different ports."""

from lab.broker import free_ports
from lab.ports import hold_block


def test_no_two_processes_have_a_port_in_common() -> None:
    """A lock belongs to the opened file, so for it each call is another process."""
    first, second = hold_block(), hold_block()
    assert not {*first} & {*second}


def test_a_port_is_given_again_only_after_all_others() -> None:
    block = {*hold_block()}
    before = free_ports(5)
    assert not {*before} & {*free_ports(100)}
    assert not {*before} & block, "they are of the block of this process"
