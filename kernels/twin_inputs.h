// What the comparisons with the slow twins draw and how they count: inputs that lean on what breaks
// kernels, the same on every machine, and bits that differ, with the first of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace resumecheck::kernels {

std::uint32_t bits_in(float value);
float float_from(std::uint32_t bits);

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : seed_(seed) {}
  std::uint32_t word();
  std::size_t below(std::size_t limit) { return word() % limit; }
  float value();  // magnitudes over about thirty binades, both signs, zeros among them
  float edge();   // zeros, denormals, infinities, NaNs with payloads, the largest

 private:
  std::uint32_t seed_, next_ = 0;
};

// One kind a block (ordinary, zeros, tiny, with edges), so that a NaN does not swallow every block.
// One block in eight has its largest magnitude negative.
std::vector<float> draw_values(Draw& draw, std::int64_t count, std::int64_t block, bool edges);

struct Outcome {
  std::string kernel;
  std::int64_t cases = 0, elements = 0, mismatches = 0;
  std::string first_mismatch;  // which case, which element, both bit patterns; empty if none
};

class Count {
 public:
  explicit Count(std::string kernel) { outcome_.kernel = std::move(kernel); }
  void begin(std::string name);
  void element(const char* what, std::size_t index, std::uint32_t want, std::uint32_t got);
  void floats(const char* what, const std::vector<float>& want, const std::vector<float>& got);
  void codes(const char* what, const std::vector<std::uint8_t>& want,
             const std::vector<std::uint8_t>& got);
  Outcome outcome() const { return outcome_; }

 private:
  Outcome outcome_;
  std::string case_;
};

}  // namespace resumecheck::kernels
