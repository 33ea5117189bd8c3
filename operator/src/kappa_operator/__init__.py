"""The Kappa operator: gather → decide → act.

`handlers` turns watch events into keys on a queue; for each key `observe` gathers the context into a frozen value,
`plan` decides purely what to do, `apply` does it. Only `cluster`, `kafka`, `drivers` and `webhooks` connect to others.
"""
