"""Changes to ``protocol_loop`` that the chapter ``protocol`` tries, in a group for each rule.

Most break a rule, some keep all of them and look as if they did not. What compiler, emulator and
GPU make of each is for them to say; here stands only what is changed, and why it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopper.experiments.protocol_variants import Changes, Variant, swapped, without
from hopper.experiments.protocol_variants import step as _step


@dataclass(frozen=True)
class Break:
    """A change to try. ``about``: what it asks, or which rule it touches."""

    variant: Variant
    about: str

    @property
    def name(self) -> str:
        """What is changed, in a few words."""
        return self.variant.name


def _named(name: str, variant: Variant, about: str) -> Break:
    return Break(Variant(name, variant.changes), about)


def _change(name: str, about: str, *changes: tuple[str, str]) -> Break:
    return Break(Variant(name, changes), about)


def _moved(key: str, line: str, other: str, *, behind: bool) -> Changes:
    """Step ``key`` taken away, and ``line`` put in front of, or behind, step ``other``."""
    step, there = _step(key), _step(other)
    put = (there + line) if behind else (line + there)
    return (step, "\n" * step.count("\n")), (there, put)


_LOOP = "#pragma unroll 1\n  for (int step = 0; step < steps; ++step) {\n"
_SCALE_D = "/*scale_d=*/step + i > 0"
_ZERO = "for (float& sum : d) sum = 0;\n"
_PROXY, _FENCE = "fence_proxy_async();", "wgmma_fence();"

BREAKS: dict[str, tuple[Break, ...]] = {
    "fence": (
        _named("no wgmma.fence", without("fence"), "needed before the first wgmma"),
        _named("wgmma.fence behind the wgmmas", swapped("fence", "mma"), "too late for the first"),
        _change(
            "fence.proxy.async in place of wgmma.fence",
            "a fence of memory orders no registers",
            (_FENCE, _PROXY),
        ),
        _change(
            "wgmma.fence once, before the loop",
            "nothing but wgmma touches the sums in the loop",
            (_step("fence"), "\n"),
            (_LOOP, f"  {_FENCE}\n{_LOOP}"),
        ),
        _named(
            "wgmma.fence before the wait for full",
            swapped("wait full", "fence"),
            "is it there for the tiles?",
        ),
    ),
    "groups": (
        _named("no commit_group", without("commit"), "wait_group waits for groups only"),
        _named("commit_group before the wgmmas", swapped("mma", "commit"), "closes an older group"),
        _named("no wait_group<1>", without("wait 1"), "who says that a stage is free?"),
        _named(
            "wait_group<1> before commit_group",
            swapped("commit", "wait 1"),
            "counts groups that are committed",
        ),
        _named("no wait_group<0> at the end", without("wait 0"), "the last group may still run"),
        _change(
            "wait_group<1> in place of wait_group<0>",
            "leaves just that group running",
            ("wgmma_wait_group<0>();", "wgmma_wait_group<1>();"),
        ),
        _named(
            "sums stored before wait_group<0>", swapped("wait 0", "read"), "the last group may run"
        ),
    ),
    "release": (
        _named("no arrival at empty", without("release"), "nobody ever frees a stage"),
        _named(
            "arrival at empty before wait_group<1>",
            swapped("wait 1", "release"),
            "frees what may still be read",
        ),
        _change(
            "this stage freed, not the one before",
            "wait_group<1> lets this group run",
            ("if (step > 0 && lane == 0)", "if (lane == 0)"),
            ("&empty[(step - 1) % STAGES]", "&empty[stage]"),
        ),
        _change(
            "one thread frees it for four warps",
            "each warp waits for its own groups",
            ("&empty[stage], 4)", "&empty[stage], 1)"),
            ("step > 0 && lane == 0", "step > 0 && thread == 0"),
        ),
    ),
    "arrival": (
        _named("no wait for full", without("wait full"), "who says that the tiles are there?"),
        _named("wait for full behind the wgmmas", swapped("wait full", "mma"), "too late"),
        _named("no wait for empty", without("wait empty"), "who says that they may go?"),
        _named("stores of B not reported", without("arrive full"), "the phase waits for 129"),
        _change(
            "no __syncthreads() behind the init",
            "a barrier that not everyone can see yet",
            ("  __syncthreads();  // the barriers", "  // the barriers"),
        ),
    ),
    "proxy": (
        _named("no fence.proxy.async", without("proxy"), "stores and reads take two paths"),
        _named(
            "fence.proxy.async behind the arrival",
            swapped("proxy", "arrive full"),
            "who waited for full may be ahead of it",
        ),
        Break(
            Variant(
                "fence.proxy.async by those who multiply, behind their wait",
                _moved("proxy", f"    {_PROXY}\n", "wait full", behind=True),
            ),
            "anywhere between the two accesses?",
        ),
        Break(
            Variant(
                "fence.proxy.async by those who multiply, before their wait",
                _moved("proxy", f"    {_PROXY}\n", "wait full", behind=False),
            ),
            "not between the two accesses",
        ),
        _change(
            "wgmma.fence in place of fence.proxy.async",
            "a fence of registers orders no memory",
            (_PROXY, _FENCE),
        ),
        _change(
            "__threadfence_block() in place of fence.proxy.async",
            "orders ordinary accesses only",
            (_PROXY, "__threadfence_block();"),
        ),
    ),
    "sums": (
        _change("scale_d always true", "the first product is added to what?", (_SCALE_D, "true")),
        _change(
            "zeroed before the loop",
            "in place of scale_d",
            (_SCALE_D, "true"),
            (_LOOP, f"  {_ZERO}{_LOOP}"),
        ),
        _change(
            "zeroed behind wgmma.fence",
            "touched behind the fence",
            (_SCALE_D, "true"),
            (_step("fence"), f"{_step('fence')}    if (step == 0)\n      {_ZERO}"),
        ),
        _change(
            "zeroed in the loop, before wgmma.fence",
            "touched at step 0 only, says the source",
            (_SCALE_D, "true"),
            (_step("fence"), f"    if (step == 0)\n      {_ZERO}{_step('fence')}"),
        ),
        _change(
            "a sum stored behind commit_group",
            "a commit waits for nothing",
            (_step("commit"), f"{_step('commit')}    c[(row + thread / 2) * TILE_N] = d[0];\n"),
        ),
        _change(
            "sums doubled behind wait_group<1>, halved at once",
            "this step's group may still run",
            (
                _step("wait 1"),
                f"{_step('wait 1')}    for (float& sum : d) sum *= 2 + 0.0f * k;\n"
                "    for (float& sum : d) sum *= 0.5f;\n",
            ),
        ),
    ),
}


def every_break() -> list[Break]:
    """All of them, in the order of the page."""
    return [one for group in BREAKS.values() for one in group]
