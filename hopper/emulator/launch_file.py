"""Launch files: how to launch a kernel of one's own in the emulator, and what to try, in TOML.

docs/emulator.md describes every key. Whatever is wrong in a file is a LaunchFileError that names
the file, the key, its value, the rule and the way out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy

from hopper.emulator.launch import SCHEDULES as WARPS
from hopper.emulator.launch import TMA_MODES as COPIES
from hopper.emulator.launch_values import (
    FILLS,
    SCALARS,
    Expected,
    checked_number,
    fill_array,
    load_array,
    parse_product,
    storage,
)
from hopper.errors import HopperError, ProblemError
from hopper.tensormap import TensorMap

FROM_FACTS = "from the launch facts"
#: Any pair of WARPS and COPIES is a schedule; these are tried where a launch file names none.
SCHEDULES = ("fixed/lazy", "random/random", "random/eager")
DEFAULT_SEEDS = 2
DEFAULT_SKEWS = (0, 16)
DEFAULT_STEP_LIMIT = 5_000_000

_KEYS = (
    "kernel",
    "grid",
    "block",
    "cluster",
    "shared_bytes",
    "schedules",
    "seeds",
    "shared_skews",
    "step_limit",
    "defines",
    "arrays",
    "arguments",
    "expect",
)
_ARRAY_KEYS = ("shape", "dtype", "fill", "seed", "file")
_MAP_KEYS = ("map", "box", "swizzle", "fill", "element")
_EXPECT_KEYS = ("array", "equals", "file", "tolerance")


class LaunchFileError(HopperError):
    """A launch file that cannot be used."""


@dataclass(frozen=True)
class ArrayArgument:
    """The address of an array."""

    array: str


@dataclass(frozen=True)
class MapArgument:
    """A tensor map over an array; the rest as of ``TensorMap``."""

    array: str
    box: tuple[int, ...]
    swizzle: int
    fill: str
    element: str | None


Argument = ArrayArgument | MapArgument | numpy.generic


@dataclass(frozen=True, eq=False)
class LaunchFile:
    """A launch file, checked as far as it can be without the compiled kernel.

    ``kernel``: None where the source has only one. ``block`` and ``shared_bytes``: None means
    that the kernel's launch facts say it. ``cluster``: None means as the kernel states it.
    ``arrays``: what each holds when the kernel starts. ``schedules``: pairs such as "fixed/lazy".
    """

    path: Path
    kernel: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    shared_bytes: int | None
    schedules: tuple[str, ...]
    seeds: int
    shared_skews: tuple[int, ...]
    step_limit: int
    defines: Mapping[str, int | str]
    arrays: Mapping[str, numpy.ndarray]
    arguments: tuple[Argument, ...]
    expected: tuple[Expected, ...]

    def fresh(self) -> tuple[dict[str, numpy.ndarray], list[object]]:
        """Arrays by name and arguments in order, new for each run: a kernel changes them."""
        arrays = {name: array.copy() for name, array in self.arrays.items()}
        return arrays, [_made(argument, arrays) for argument in self.arguments]


def read_launch_file(path: Path) -> LaunchFile:
    """Read and check a launch file. Raises LaunchFileError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchFileError(f"{path}: the launch file cannot be read ({error})") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LaunchFileError(
            f"{path}: not TOML: {error}; strings are in quotes, an inline table is on one line"
        ) from error
    return _Reader(path).file(table)


def _made(argument: Argument, arrays: Mapping[str, numpy.ndarray]) -> object:
    if isinstance(argument, ArrayArgument):
        return arrays[argument.array]
    if isinstance(argument, MapArgument):
        return TensorMap(
            arrays[argument.array],
            argument.box,
            argument.swizzle,
            fill=argument.fill,
            element=argument.element,
        )
    return argument


@dataclass(frozen=True)
class _Reader:
    """Reads the tables of one file, whose name goes into every message."""

    path: Path

    def file(self, table: dict) -> LaunchFile:
        self._known("", table, _KEYS)
        if "grid" not in table:
            self._fail("grid", "missing: a launch has a grid of blocks; write grid = [1, 1, 1]")
        made = self._arrays(table.get("arrays", {}))
        arrays = {name: array for name, (array, _) in made.items()}
        elements = {name: element for name, (_, element) in made.items()}
        if "arguments" not in table:
            self._fail(
                "arguments",
                "missing: list them in the kernel's order, [] where it takes none; write it above "
                "the first [table]",
            )
        kernel = table.get("kernel")
        if not isinstance(kernel, str | None):
            self._fail(f"kernel = {kernel!r}", 'it is a name; write kernel = "multiply"')
        return LaunchFile(
            path=self.path,
            kernel=kernel,
            grid=self._lengths("grid", table["grid"]),
            block=self._or_facts("block", table.get("block", FROM_FACTS), self._lengths),
            cluster=self._lengths("cluster", table["cluster"]) if "cluster" in table else None,
            shared_bytes=self._or_facts(
                "shared_bytes", table.get("shared_bytes", 0), lambda key, x: self._whole(key, x, 0)
            ),
            schedules=self._schedules(table.get("schedules", list(SCHEDULES))),
            seeds=self._whole("seeds", table.get("seeds", DEFAULT_SEEDS), 1),
            shared_skews=self._skews(table.get("shared_skews", list(DEFAULT_SKEWS))),
            step_limit=self._whole("step_limit", table.get("step_limit", DEFAULT_STEP_LIMIT), 1),
            defines=self._defines(table.get("defines", {})),
            arrays=arrays,
            arguments=self._arguments(table["arguments"], arrays, elements),
            expected=self._expected(table.get("expect", []), arrays, elements),
        )

    # ---- tables

    def _arrays(self, tables: object) -> dict[str, tuple[numpy.ndarray, str]]:
        self._table("arrays", tables, "write [arrays.a] above the keys of an array called a")
        return {name: self._array(f"arrays.{name}", table) for name, table in tables.items()}

    def _array(self, key: str, table: object) -> tuple[numpy.ndarray, str]:
        """The array as it lies in memory, and the name of its elements' type."""
        self._table(key, table, f"write [{key}], and below it shape, dtype and fill")
        self._known(key, table, _ARRAY_KEYS)
        try:
            if "file" in table:
                for other in ("fill", "seed"):
                    if other in table:
                        self._fail(
                            f"{key}.{other} = {table[other]!r}",
                            "the array comes from a file; leave out one of the two",
                        )
                there = self._load(f"{key}.file", table["file"], table.get("dtype"))
                if "shape" in table and self._shape(key, table["shape"]) != there[0].shape:
                    self._fail(
                        f"{key}.shape = {table['shape']}",
                        f"{table['file']} holds {list(there[0].shape)}; leave shape out, or "
                        f"correct it",
                    )
                return there
            for wanted in ("shape", "dtype", "fill"):
                if wanted not in table:
                    self._fail(
                        f"{key}.{wanted}",
                        "missing: an array has a shape, a dtype and a fill, or else a file (.npy)",
                    )
            shape, dtype, fill = self._shape(key, table["shape"]), table["dtype"], table["fill"]
            storage(dtype)  # refuses what is no dtype, whatever the fill
            seed = self._whole(f"{key}.seed", table.get("seed", 0), 0)
            if "seed" in table and fill in FILLS and not FILLS[fill].random:
                self._fail(f"{key}.seed = {seed}", f"fill = {fill!r} draws nothing; leave seed out")
            return fill_array(shape, dtype, fill, seed), dtype
        except ProblemError as error:
            self._fail(key, str(error))

    def _arguments(
        self, items: object, arrays: Mapping[str, numpy.ndarray], elements: Mapping[str, str]
    ) -> tuple[Argument, ...]:
        if not isinstance(items, list):
            self._fail(f"arguments = {items!r}", "it is a list, in the kernel's order; write [ … ]")
        found = []
        for number, item in enumerate(items):
            key = f"arguments[{number}]"
            self._table(
                key, item, 'write { array = "c" }, { map = "a", box = [64, 64] } or { int32 = 256 }'
            )
            if "map" in item:
                found.append(self._map(key, item, arrays, elements))
            elif "array" in item:
                self._known(key, item, ("array",))
                found.append(ArrayArgument(self._named(f"{key}.array", item["array"], arrays)))
            else:
                found.append(self._scalar(key, item))
        return tuple(found)

    def _map(
        self,
        key: str,
        item: dict,
        arrays: Mapping[str, numpy.ndarray],
        elements: Mapping[str, str],
    ) -> MapArgument:
        self._known(key, item, _MAP_KEYS)
        name = self._named(f"{key}.map", item["map"], arrays)
        if "box" not in item:
            self._fail(f"{key}.box", "missing: what one copy brings; write box = [rows, columns]")
        argument = MapArgument(
            name,
            self._shape(key, item["box"], "box"),
            self._whole(f"{key}.swizzle", item.get("swizzle", 128), 0),
            item.get("fill", "zeros"),
            item.get("element", "bfloat16" if elements[name] == "bfloat16" else None),
        )
        for word in (argument.fill, argument.element):
            if not isinstance(word, str | None):
                self._fail(f"{key}: {word!r}", "fill and element are words; write them in quotes")
        try:
            _made(argument, arrays)
        except ProblemError as error:
            self._fail(key, str(error))
        return argument

    def _scalar(self, key: str, item: dict) -> numpy.generic:
        if len(item) != 1 or next(iter(item)) not in SCALARS:
            self._fail(
                f"{key} = {item!r}",
                f"an argument is an array, a map, or one value of a type, as in {{ int32 = 256 }}; "
                f"types are {', '.join(SCALARS)}",
            )
        ((dtype, value),) = item.items()
        try:
            return checked_number(dtype, value)
        except ProblemError as error:
            self._fail(f"{key}.{dtype} = {value!r}", str(error))

    def _expected(
        self, items: object, arrays: Mapping[str, numpy.ndarray], elements: Mapping[str, str]
    ) -> tuple[Expected, ...]:
        several = isinstance(items, list)
        found = []
        for number, item in enumerate(items if several else [items]):
            key = f"expect[{number}]" if several else "expect"
            self._table(key, item, 'write expect = { array = "c", equals = "a @ b.T" }')
            self._known(key, item, _EXPECT_KEYS)
            if "array" not in item or ("equals" in item) == ("file" in item):
                self._fail(
                    f"{key} = {item!r}",
                    'it names an array, and what it is compared with: equals = "a @ b.T" or '
                    'file = "c.npy"',
                )
            name = self._named(f"{key}.array", item["array"], arrays)
            tolerance = item.get("tolerance", 0)
            if isinstance(tolerance, bool) or not isinstance(tolerance, int | float):
                self._fail(f"{key}.tolerance = {tolerance!r}", "it is a number; write 0.01")
            if not tolerance >= 0:
                self._fail(f"{key}.tolerance = {tolerance!r}", "it is not negative; write 0.01")
            element = elements[name]
            if "file" in item:
                value, _ = self._load(f"{key}.file", item["file"], element)
                if value.shape != arrays[name].shape:
                    self._fail(
                        f"{key}.file = {item['file']!r}",
                        f"it holds {list(value.shape)}, and {name} is "
                        f"{list(arrays[name].shape)}; they must agree",
                    )
                found.append(Expected(name, item["file"], value, element, float(tolerance)))
                continue
            try:
                value = parse_product(item["equals"], arrays, elements, name)
            except ProblemError as error:
                self._fail(f"{key}.equals = {item['equals']!r}", str(error))
            found.append(Expected(name, item["equals"], value, element, float(tolerance)))
        return tuple(found)

    def _defines(self, table: object) -> dict[str, int | str]:
        self._table("defines", table, "write [defines], and below it TILE_M = 64")
        for name, value in table.items():
            if isinstance(value, bool) or not isinstance(value, int | str):
                self._fail(
                    f"defines.{name} = {value!r}",
                    "a macro is a whole number or a text; put anything else in quotes",
                )
        return table

    # ---- values

    def _lengths(self, key: str, value: object) -> tuple[int, int, int]:
        found = [value] if isinstance(value, int) else value
        if not isinstance(found, list) or not 1 <= len(found) <= 3:
            self._fail(
                f"{key} = {value!r}", f"it has one to three lengths; write {key} = [2, 1, 1]"
            )
        lengths = [self._whole(key, length, 1) for length in found]
        return (*lengths, 1, 1)[:3]

    def _shape(self, key: str, value: object, what: str = "shape") -> tuple[int, ...]:
        if not isinstance(value, list) or not value:
            self._fail(f"{key}.{what} = {value!r}", f"it is a list of lengths; write {what} = [64]")
        return tuple(self._whole(f"{key}.{what}", length, 1) for length in value)

    def _whole(self, key: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self._fail(f"{key} = {value!r}", f"it is a whole number; write {key} = {max(least, 1)}")
        if value < least:
            self._fail(f"{key} = {value}", f"it is at least {least}; raise it")
        return value

    def _or_facts(self, key: str, value: object, read):
        if value == FROM_FACTS:
            return None
        if isinstance(value, str):
            self._fail(f"{key} = {value!r}", f'the only text it may be is "{FROM_FACTS}"')
        return read(key, value)

    def _schedules(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            self._fail(f"schedules = {value!r}", f"it is a list; write schedules = {_LISTED}")
        for name in value:
            problem = schedule_problem(name)
            if problem:
                self._fail(f"schedules: {name!r}", problem)
        return tuple(dict.fromkeys(value))

    def _skews(self, value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or not value:
            self._fail(f"shared_skews = {value!r}", "it is a list; write shared_skews = [0, 16]")
        for skew in value:
            if self._whole("shared_skews", skew, 0) % 16:
                self._fail(
                    f"shared_skews: {skew}",
                    "dynamic shared memory moves by a multiple of 16 bytes; write [0, 16]",
                )
        return tuple(dict.fromkeys(value))

    def _load(self, key: str, name: object, dtype: object) -> tuple[numpy.ndarray, str]:
        if not isinstance(name, str):
            self._fail(f"{key} = {name!r}", 'it names a .npy file; write file = "a.npy"')
        try:
            return load_array(self.path.parent / name, dtype)
        except ProblemError as error:
            self._fail(f"{key} = {name!r}", str(error))

    def _named(self, key: str, name: object, arrays: Mapping[str, numpy.ndarray]) -> str:
        if not isinstance(name, str) or name not in arrays:
            there = ", ".join(arrays) or "(none)"
            self._fail(
                f"{key} = {name!r}",
                f"there is no such array, there are {there}; add [arrays.NAME], or correct it",
            )
        return name

    def _table(self, key: str, value: object, way_out: str) -> None:
        if not isinstance(value, dict):
            self._fail(f"{key} = {value!r}", f"it is a table; {way_out}")

    def _known(self, key: str, table: dict, keys: tuple[str, ...]) -> None:
        for name, value in table.items():
            if name in keys:
                continue
            where = f"{key}.{name}" if key else name
            moved = (
                f"; a line below a [table] belongs to it: move {name} above the first of them"
                if key and name in _KEYS
                else ""
            )
            self._fail(
                f"{where} = {_short(value)}", f"unknown key; known are {', '.join(keys)}{moved}"
            )

    def _fail(self, what: str, why: str) -> NoReturn:
        raise LaunchFileError(f"{self.path}: {what}: {why}")


_LISTED = "[" + ", ".join(f'"{name}"' for name in SCHEDULES) + "]"


def schedule_problem(name: object) -> str:
    """What is wrong with the name of a schedule, and the way out; empty where nothing is."""
    parts = name.split("/") if isinstance(name, str) else []
    if len(parts) == 2 and parts[0] in WARPS and parts[1] in COPIES:
        return ""
    return (
        f"a schedule is warps/copies, {' or '.join(WARPS)} and {', '.join(COPIES)}; write "
        f'"{SCHEDULES[0]}"'
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
