// Pairs of tiles: how C is divided among clusters of two blocks.
#pragma once

#include "raster.cuh"
#include "stream_k.cuh"

// [order]
struct Order {
  int row, column;  // this block's corner of C
  int steps;        // of K; 0 behind the last piece
  int givers;       // as in Piece
  int rest;         // 1: a tile of the rest of N
};
// [/order]

// kShareA: the two tiles lie in a row, and share A; otherwise in a column, and share B. kRestN: where
// it is not 0, columns that pairs do not divide get tiles half as high and kRestN wide, two in a column.
// Neighbours in number share what a pair does not: pairs that share A are numbered down the columns, in
// groups of kRaster rows, and those that share B along the rows, in groups of so many columns.
template <bool kShareA, int kTileM, int kTileN, int kRestN, int kRaster>
struct Pairs {
  static constexpr int M = kShareA ? kTileM : 2 * kTileM, N = kShareA ? 2 * kTileN : kTileN;
  int rows, columns, rest;  // of pairs; columns of the others

  // [divide]
  // `narrow`: into the others only.
  __device__ void divide(int m, int n, bool narrow) {
    rows = (m + M - 1) / M, columns = n / N, rest = 0;
    const int over = n % N;  // columns that whole pairs leave over
    if (kRestN > 0 && narrow) columns = 0, rest = (n + kRestN - 1) / max(kRestN, 1);
    else if (over == 0) return;
    else if (over <= 2 * kRestN - N && columns > 0) --columns, rest = 2;  // one pair less, two of the others
    else if (over <= kRestN) rest = 1;
    else ++columns;
  }
  // [/divide]

  // [order_of]
  __device__ Order order(const Piece& piece, int rank) const {
    const int beyond = piece.unit - rows * columns, steps = piece.last - piece.first;
    const bool others = kRestN > 0 && beyond >= 0;
    // Pairs that share A are numbered down the columns, those that share B along the rows.
    const Tile corner = kShareA && !others
                            ? rasterized<kRaster>(piece.unit, rows, columns)
                            : rasterized_along_rows<kShareA ? (kRaster + 1) / 2 : kRaster>(
                                  others ? beyond : piece.unit, rows, others ? rest : columns);
    if (others)
      return {corner.row * M + rank * kTileM / 2, columns * N + corner.column * kRestN, steps,
              piece.givers, 1};
    return {corner.row * M + (kShareA ? 0 : rank * kTileM),
            corner.column * N + (kShareA ? rank * kTileN : 0), steps, piece.givers, 0};
  }
  // [/order_of]
};
