// The table that turns a quotient into its code with one look-up. A bucket is the top bits of the
// quotient's ordered key (adamw_phases.h); an entry is (code << shift) + offset, and adding the
// key's low bits carries into the code exactly from the first float on that belongs to the next
// code. That works while no bucket holds two such thresholds, which is checked when a table is
// made.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/isa_unit.h"

namespace resumecheck::kernels {

// [2^(32 - shift)] entries, or empty where the codebook is too fine for buckets of that width.
// Codes of fewer than 8 bits have their upper bits set in the table, for the carry to wrap.
std::vector<std::uint32_t> carry_table(const float* codebook, int entries, int shift);

// With a table where the codebook is the standard one, by search otherwise. codebook is not read
// for e4m3. The pointers live as long as the program and the codebook do.
CodeMap code_map_for(Storage storage, const float* codebook);

}  // namespace resumecheck::kernels
