"""Durations and sizes as people write them in manifests.

Durations are a sequence of whole numbers with the units ms, s, m, h, d, w (`90s`, `1h30m`, `7d`). Sizes are
Kubernetes quantities (`512Mi`, `10Gi`, `1G`). CPU is a Kubernetes quantity too (`500m`, `2`, `1.5`).
"""

import re
from decimal import Decimal

DURATION_PATTERN = r"^([0-9]+(ms|s|m|h|d|w))+$"
SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
CPU_PATTERN = r"^([0-9]+m|[0-9]+(\.[0-9]+)?)$"

MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""Units of durations, the longest last."""
_BYTES = {
    "": 1,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip


def parse_duration(text: str) -> float:
    """Return the seconds in a duration such as `1h30m`; raise ValueError for anything else."""
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(
            f"{text!r} is not a duration; write whole numbers with units, such as 90s, 1h30m or 7d"
        )
    parts = re.findall(r"([0-9]+)(ms|s|m|h|d|w)", text)
    return sum(int(number) * MILLISECONDS[unit] for number, unit in parts) / 1000


def parse_size(text: str) -> int:
    """Return the bytes in a size such as `10Gi`; raise ValueError for anything else."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?", text)
    if not match:
        raise ValueError(f"{text!r} is not a size; write a number with a unit, such as 512Mi or 10Gi")
    return int(Decimal(match[1]) * _BYTES[match[2] or ""])


def parse_cpu(text: str) -> float:
    """Return the cores in a CPU quantity such as `500m` or `2`; raise ValueError for anything else."""
    if not re.fullmatch(CPU_PATTERN, text):
        raise ValueError(f"{text!r} is not a number of cores; write 500m, 1 or 1.5")
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)


def format_duration(seconds: float) -> str:
    """Format a duration for users: `850ms`, `12.3s`, `4m10s`, `3h05m`, `2d4h`."""
    if round(seconds * 1000) < 1000:
        return f"{seconds * 1000:.0f}ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s".replace("m00s", "m")
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m".replace("h00m", "h")
    return f"{whole // 86_400}d{whole % 86_400 // 3600}h".replace("d0h", "d")


def format_size(size: float) -> str:
    """Format a number of bytes for users: `950 B`, `1.5 KiB`, `12 MiB`."""
    return _scale(size, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def format_count(count: float) -> str:
    """Format a count for users: `950`, `84.2k`, `1.3M`."""
    return _scale(count, 1000, ("", "k", "M", "G"))


def _scale(number: float, step: int, units: tuple[str, ...]) -> str:
    """Format a number with the unit in which it is below `step`, or with the last one."""
    for digits, unit in zip((0, *[1] * len(units)), units, strict=False):
        if round(number, digits) < step or unit == units[-1]:
            break
        number /= step
    return f"{number:.{digits}f}".removesuffix(".0") + unit
