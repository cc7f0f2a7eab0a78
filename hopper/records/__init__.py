"""Recorded measurements: reading, sealing, freshness, look-up.

``results/<gpu>/<kernel>.json`` holds every recorded measurement of a kernel on a GPU model, in the
schema of ``hopper.schema``. A seal, the hash of the rest, tells a truncated or edited file. Each
entry carries the identity of what was measured, so that a kernel which changed since is noticed.

    python -m hopper.records check            is every record there, intact and fresh?
    python -m hopper.records list [KERNEL]    every quantity that prose may name
    python -m hopper.records merge FOLDER     install a bundle that make record wrote
"""

from hopper.records.audit import Finding, check_records, merge
from hopper.records.fresh import (
    change_of,
    current,
    freshness,
    identity_now,
    identity_of,
    merged,
    replaced,
    same_code,
)
from hopper.records.named import Quantity, named_quantities, quantities, quantity
from hopper.records.store import (
    AGAIN,
    GPU,
    HEADLINE,
    NoRecording,
    Record,
    configuration,
    find,
    gpu_slug,
    load,
    own_dir,
    read_record,
    record_path,
    recorded_list,
    results_dir,
    save_own,
    seal,
    size_of,
    write_record,
)
from hopper.records.tables import (
    CountersTable,
    TuningTable,
    counter,
    counters_table,
    tuning_table,
)

__all__ = [
    "AGAIN",
    "CountersTable",
    "GPU",
    "HEADLINE",
    "Finding",
    "NoRecording",
    "Quantity",
    "Record",
    "TuningTable",
    "change_of",
    "check_records",
    "configuration",
    "counter",
    "counters_table",
    "current",
    "find",
    "freshness",
    "gpu_slug",
    "identity_now",
    "identity_of",
    "load",
    "merge",
    "merged",
    "named_quantities",
    "own_dir",
    "quantities",
    "quantity",
    "read_record",
    "record_path",
    "recorded_list",
    "replaced",
    "results_dir",
    "same_code",
    "save_own",
    "seal",
    "size_of",
    "tuning_table",
    "write_record",
]
