"""The state of an auction, folded from its events."""

from typing import Any


def evolve(state: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any]:
    """Return the state after an event."""
    before = state or {"bids": 0, "price": None, "bidder": None, "closed": False}
    match event["type"]:
        case "bid":
            bids = before["bids"] + 1
            return {**before, "bids": bids, "price": event["amount"], "bidder": event["bidder"]}
        case "closed":
            return {**before, "closed": True}
        case _:
            return before
