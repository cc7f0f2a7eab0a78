"""Bank conflicts of shared memory, counted: how many turns a warp's access takes.

Shared memory has 32 banks of 4 bytes; word w lies in bank w % 32, and in one turn (a *wavefront*)
each bank delivers one word, to every lane that wants it. A warp whose lanes read 4 bytes is served
at once; lanes that read 8 bytes are served in two halves, 16 bytes in four quarters, since 128
bytes are what a wavefront can carry. ``ldmatrix`` takes a turn for each of its matrices, whose
eight addresses are those of a quarter.

Sources: CUDA C++ Programming Guide, shared memory of compute capability 5.x and later (banks, words
of 4 bytes, broadcast). That a warp splits into halves and quarters is not documented there: the
cycles that an H200 takes agree with it, for strides and for columns of tiles (recorded sweeps of
the kernel ``bank_conflicts``). Not asked: lanes of two halves or quarters that read the same word,
which count apart here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from hopper.errors import ProblemError

BANKS = 32
WORD_BYTES = 4
#: What one wavefront can carry.
WAVEFRONT_BYTES = BANKS * WORD_BYTES
LANES = 32
ACCESS_BYTES = (4, 8, 16)


def bank(address: int | numpy.ndarray) -> int | numpy.ndarray:
    """The bank, 0 to 31, that holds the byte at a shared ``address``."""
    return address // WORD_BYTES % BANKS


def lanes_at_once(access_bytes: int) -> int:
    """Lanes that are served together: 32, 16 or 8. Raises ProblemError for another width."""
    if access_bytes not in ACCESS_BYTES:
        raise ProblemError(
            f"access_bytes={access_bytes}: a lane reads or writes 4, 8 or 16 bytes at once; count "
            f"narrower accesses as the words of 4 bytes that they lie in"
        )
    return WAVEFRONT_BYTES // access_bytes


def wavefronts(addresses: Sequence[int] | numpy.ndarray, access_bytes: int) -> int:
    """Turns that shared memory takes to serve one access of a warp.

    ``addresses``: bytes, one for each active lane in lane order, at most 32, each a multiple of
    ``access_bytes`` (4, 8 or 16). Of every group of lanes that is served at once, the bank from
    which most different words are wanted sets the number. Raises ProblemError otherwise.
    """
    group = lanes_at_once(access_bytes)
    lanes = numpy.asarray(addresses)
    if not 1 <= lanes.size <= LANES or lanes.ndim != 1:
        raise ProblemError(
            f"addresses of shape {lanes.shape}: a warp has {LANES} lanes; pass one address for each"
        )
    crooked = lanes[lanes % access_bytes != 0]
    if crooked.size:
        raise ProblemError(
            f"address {crooked[0]}: a lane that reads {access_bytes} bytes reads from a multiple "
            f"of {access_bytes}; shared memory faults on another"
        )
    return sum(_turns(lanes[i : i + group], access_bytes) for i in range(0, lanes.size, group))


def fewest(access_bytes: int, lanes: int = LANES) -> int:
    """Turns of an access without a conflict, each of ``lanes`` reading words of its own."""
    return -(-lanes // lanes_at_once(access_bytes))


def _turns(addresses: numpy.ndarray, access_bytes: int) -> int:
    words = addresses[:, None] // WORD_BYTES + numpy.arange(access_bytes // WORD_BYTES)
    wanted = numpy.unique(words)
    return int(numpy.bincount(wanted % BANKS).max())
