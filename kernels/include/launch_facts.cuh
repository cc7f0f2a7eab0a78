// What the host must know to launch a kernel, said once, by the kernel itself.
//
//   LAUNCH_FACT(tile_m, TILE_M);
//
// puts a constant named fact_tile_m into the module. It is part of the PTX, so Python reads it
// back from there (hopper/facts.py) and a -D override changes kernel and host together.
#pragma once

#define LAUNCH_FACT(name, value) extern "C" __constant__ unsigned fact_##name = (value)
