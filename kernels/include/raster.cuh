// Which tile of C a block computes. Blocks start roughly in the order of their numbers, along
// blockIdx.x first, and those that run at the same time share what L2 holds.
#pragma once

struct Tile {
  int row, column;  // in tiles
};

// [raster]
// Groups of kWidth rows of tiles, one after another; in a group, column by column. So the blocks that
// run together make a patch kWidth rows high. The last group may have fewer rows. kWidth 0: the grid's
// own order, all rows in one group.
template <int kWidth>
__device__ inline Tile rasterized() {
  if (kWidth == 0) return {int(blockIdx.x), int(blockIdx.y)};
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned group = block / (kWidth * gridDim.y), within = block % (kWidth * gridDim.y);
  const unsigned first = group * kWidth, rows = min(kWidth, gridDim.x - first);
  return {int(first + within % rows), int(within / rows)};
}
// [/raster]

// [numbered]
// The same for tile number `index` of rows × columns tiles, where a block takes several.
template <int kWidth>
__device__ inline Tile rasterized(unsigned index, unsigned rows, unsigned columns) {
  if (kWidth == 0) return {int(index % rows), int(index / rows)};
  const unsigned group = index / (kWidth * columns), within = index % (kWidth * columns);
  const unsigned first = group * kWidth, height = min(kWidth, rows - first);
  return {int(first + within % height), int(within / height)};
}
// [/numbered]

// [along_rows]
// The same along rows: groups of kWidth columns, and in a group row by row.
template <int kWidth>
__device__ inline Tile rasterized_along_rows(unsigned index, unsigned rows, unsigned columns) {
  const Tile turned = rasterized<kWidth>(index, columns, rows);
  return {turned.column, turned.row};
}
// [/along_rows]
