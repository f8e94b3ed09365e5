// Damaged files come from full disks, killed writers and broken adapters, so whatever the bytes
// are, reading answers with the contents or with an Error: no crash, no endless allocation, no
// exception of another kind. Run under AddressSanitizer this also shows that no read leaves its
// buffer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "harness/state/damaged_file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

class Mutation : public testing::Test {
 protected:
  Mutation() {
    RankState state;
    state.mesh = "dp1";
    state.coordinates = {{"dp", 0}};
    state.step = 3;
    state.values = {{"lr/0", 0.001}, {"n", std::int64_t{-4}}};
    state.pieces = {
        {{"ffn.up", "moment1.codes"}, Dtype::u8, {2, 6}, Box({0, 0}, {2, 6}), 8, Bytes(12)},
        {{"ffn.up", "moment1.scale"}, Dtype::f32, {2}, Box({0}, {2}), 8, Bytes(8)},
        {{"ffn.up", "step"}, Dtype::f32, {}, Box(), 0, Bytes(4)}};
    const TemporaryFolder folder;
    write_rank_state(folder.path(), state);
    valid_ = read_file(folder / "state_rank0.safetensors");
    std::uint64_t header = 0;
    std::memcpy(&header, valid_.data(), 8);
    header_end_ = 8 + header;
  }

  void try_text(const std::string& text) {
    file_.set(std::as_bytes(std::span(text.data(), text.size())));
    ++(accepts(file_.path()) ? accepted_ : refused_);
  }

  MemoryFile file_;
  std::string valid_;
  std::size_t header_end_ = 0;
  int accepted_ = 0;
  int refused_ = 0;
};

TEST_F(Mutation, TheUntouchedFileIsAccepted) {
  try_text(valid_);
  EXPECT_EQ(accepted_, 1) << "otherwise the other mutations show nothing";
}

TEST_F(Mutation, CutAtEveryByte) {
  for (std::size_t length = 0; length < valid_.size(); ++length) try_text(valid_.substr(0, length));
  EXPECT_EQ(accepted_, 0) << "a file that lacks bytes was accepted";
}

TEST_F(Mutation, EveryBitOfTheHeaderFlipped) {
  for (std::size_t bit = 0; bit < 8 * header_end_; ++bit) {
    std::string text = valid_;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    try_text(text);
  }
  EXPECT_GT(refused_, accepted_) << "most flips break the description";
}

TEST_F(Mutation, EveryByteOfTheHeaderReplacedByAWordOfJson) {
  for (const char* word : {"{", "}", "[", "]", "\"", ",", "-1", "1e9999", "18446744073709551615",
                           "9223372036854775807", "null", "\xff", "\\u0000"}) {
    for (std::size_t at = 8; at < header_end_; ++at) {
      std::string text = valid_.substr(0, at) + word + valid_.substr(at + 1);
      const std::uint64_t header = header_end_ - 8 + std::strlen(word) - 1;
      std::memcpy(text.data(), &header, 8);
      try_text(text);
    }
  }
  EXPECT_GT(refused_, accepted_);
}

TEST_F(Mutation, RandomSplices) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % (n + 1)); };
  for (int round = 0; round < 3000; ++round) {
    std::string text = valid_;
    for (std::size_t i = below(3) + 1; i > 0; --i) {
      const std::size_t from = below(text.size());
      const std::string piece =
          text.substr(from, below(std::min<std::size_t>(40, text.size() - from)));
      const std::size_t at = below(text.size());
      text.replace(at, std::min(below(40), text.size() - at), piece);
    }
    if (round % 2 == 0 && text.size() >= 8 + valid_.size() - header_end_) {
      const std::uint64_t header = text.size() - (valid_.size() - header_end_) - 8;
      std::memcpy(text.data(), &header, 8);
    }
    try_text(text);
  }
  EXPECT_GT(refused_, 1000);
}

}  // namespace
}  // namespace resumecheck
