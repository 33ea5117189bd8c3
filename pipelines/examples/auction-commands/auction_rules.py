"""The rules of an auction: when it can be opened, bid on and closed, and its state after each event."""

from typing import Any

from kappa_pipelines.decider import Rejected

State = dict[str, Any]
Event = dict[str, Any]


def decide(state: State | None, command: dict[str, Any]) -> list[Event] | Rejected:
    """Return the events, or the reason of a rejection."""
    match command["command"]:
        case "open":
            return _open(state, command)
        case "bid":
            return _bid(state, command)
        case "close":
            return _close(state)
        case other:
            return Rejected(f"there is no command {other}")


def _open(state: State | None, command: dict[str, Any]) -> list[Event] | Rejected:
    if state is not None:
        return Rejected("the auction has been opened before")
    return [{"type": "opened", "amount": command["amount"]}]


def _bid(state: State | None, command: dict[str, Any]) -> list[Event] | Rejected:
    if state is None or not state["open"]:
        return Rejected("the auction is not open")
    if command["amount"] < state["reserve"]:
        return Rejected("the bid is below the reserve")
    if state["price"] is not None and command["amount"] <= state["price"]:
        return Rejected("there is a bid of as much")
    return [{"type": "bid", "bidder": command["bidder"], "amount": command["amount"]}]


def _close(state: State | None) -> list[Event] | Rejected:
    if state is None or not state["open"]:
        return Rejected("the auction is not open")
    return [{"type": "closed", "bidder": state["bidder"], "amount": state["price"]}]


def evolve(state: State | None, event: Event) -> State:
    """Return the auction after an event."""
    if state is None:
        return {"open": True, "reserve": event["amount"], "price": None, "bidder": None}
    if event["type"] == "bid":
        return {**state, "price": event["amount"], "bidder": event["bidder"]}
    return {**state, "open": False}
