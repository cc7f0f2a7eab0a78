// A place in a ring of stages: which stage, and which phase of its mbarrier to wait for.
#pragma once

// [place]
template <int kStages>
struct Place {
  unsigned parity;  // of the phase to wait for; at first 0, or 1 where there is nothing to wait for
  int stage = 0;

  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;  // once round: the next phase of each barrier
  }
};
// [/place]
