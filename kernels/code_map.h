// The table that turns a quotient into its code with one look-up. A bucket is the top bits of the
// quotient's ordered key (adamw_phases.h); an entry is (code << shift) + offset, and adding the
// key's low bits carries into the code exactly from the first float on that belongs to the next
// code. That works while no bucket holds two such thresholds, which is checked when a table is
// made.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/isa_unit.h"

namespace resumecheck::kernels {

constexpr int signed_table_shift = 17;
constexpr int unsigned_table_shift = 16;

// [2^(32 - shift)] entries, or empty where the codebook is too fine for buckets of that width.
std::vector<std::uint32_t> carry_table(const float* codebook, int shift);

// With a table where the codebook is one of this project's two, by search otherwise. The pointers
// live as long as the program and the codebook do.
CodeMap code_map_for(const float* codebook);

}  // namespace resumecheck::kernels
