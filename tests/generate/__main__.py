"""Generate files from code, or check them.

python -m generate write    writes all files
python -m generate check    exits 1 and names each file that differs from its source
"""

import argparse
import sys

from generate.files import FOLDERS, find_drift, render_files, write_files
from kappa_monitoring.errors import MonitoringError


def main() -> int:
    """Write the files, or check them against their sources."""
    parser = argparse.ArgumentParser(prog="python -m generate", description=__doc__)
    parser.add_argument("command", choices=("write", "check"))
    options = parser.parse_args()
    try:
        files = render_files()
    except (MonitoringError, ValueError) as error:
        print(f"monitoring: {error}", file=sys.stderr)
        return 1
    if options.command == "write":
        write_files(files, FOLDERS)
        return 0
    drift = find_drift(files, FOLDERS)
    print("\n".join(drift) or f"{len(files)} generated files match their sources")
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
