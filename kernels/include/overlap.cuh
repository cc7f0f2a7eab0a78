// Launches that overlap (programmatic dependent launch): a kernel of the stream may begin before the one
// in front of it has ended. The host has to allow it, launch by launch (hopper/overlap.py).
#pragma once

#ifndef OVERLAP
#define OVERLAP 0  // 1: so launched
#endif

// [overlap]
// One thread of each block: once every block has been here or has ended, blocks of the next launch may
// begin where there is room. That says nothing about data.
__device__ inline void let_next_launch_begin() {
#if OVERLAP
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whoever touches global memory, or a thread that it has waited for: until all earlier launches have
// ended, and what they wrote is visible. Where launches do not overlap that is so.
__device__ inline void wait_for_launch_before() {
#if OVERLAP
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// [/overlap]

