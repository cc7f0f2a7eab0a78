"""The command line of records.

python -m hopper.records check            is every record there, intact and fresh?
python -m hopper.records list [KERNEL]    every quantity that prose may name
python -m hopper.records merge FOLDER     install a bundle that make record wrote
"""

import sys
from pathlib import Path

from hopper.compile import kernel_names, nvrtc_version
from hopper.errors import HopperError
from hopper.records import check_records, merge, quantities


def _print_check() -> int:
    findings = check_records()
    width = max((len(finding.what) for finding in findings), default=0)
    for one in findings:
        mark = "ok  " if one.ok else "FAIL"
        print(f"{mark} {one.what:<{width}} {one.date:<10} {one.state}")
    failed = sum(not one.ok for one in findings)
    if any(one.state == "other compiler" for one in findings):
        print(f"NVRTC here is {nvrtc_version()}; freshness is decided by that of requirements.txt")
    print(f"{len(findings)} looked at, {failed} failed")
    return 1 if failed else 0


def _print_list(kernels: list[str]) -> int:
    for kernel in kernels or kernel_names():
        for name, (value, unit, source) in quantities(kernel).items():
            print(f"{kernel} {name}: {value:g} {unit} ({source})")
    return 0


def main(arguments: list[str]) -> int:
    """The command line above. Returns the exit status."""
    try:
        match arguments:
            case ["check"]:
                return _print_check()
            case ["list", *kernels]:
                return _print_list(kernels)
            case ["merge", folder]:
                for path in merge(Path(folder)):
                    print(f"wrote {path}")
                return 0
    except HopperError as error:
        print(error, file=sys.stderr)
        return 1
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
