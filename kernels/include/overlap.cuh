// Launches that overlap (programmatic dependent launch): a kernel of the stream begins while the one
// before it ends. The host has to allow it, launch by launch (hopper/overlap.py).
#pragma once

#ifndef OVERLAP
#define OVERLAP 0  // 1: so launched
#endif

// [overlap]
// A thread of each block: once all blocks have been here, those of the next launch may begin, where
// there is room.
__device__ inline void let_next_launch_begin() {
#if OVERLAP
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Every thread that is the first to touch global memory: until the launch before this one has ended,
// and what it wrote is visible. Where launches do not overlap it has.
__device__ inline void wait_for_last_launch() {
#if OVERLAP
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// [/overlap]

