// What every communicator must do, whatever carries it. Each check is run by all ranks at once, on
// a communicator of its own; ranks that only pass on fast, quiet machines are the usual mistake, so
// some ranks are made late on purpose.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "harness/ranks/communicator.h"
#include "harness/state/error.h"

namespace resumecheck::conformance {

struct Check {
  std::string name;
  void (*run)(Communicator&);
};

inline Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

inline std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void pause_if(bool late) {
  if (late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

inline void gathers_by_rank(Communicator& ranks) {
  const auto all = ranks.all_gather(bytes_of("from " + std::to_string(ranks.rank())));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks.size()));
  for (int r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(text_of(all[static_cast<std::size_t>(r)]), "from " + std::to_string(r));
  }
}

// Rank r gives r * 1000 bytes; rank 0 therefore gives none.
inline void gathers_different_lengths(Communicator& ranks) {
  const std::string mine(static_cast<std::size_t>(ranks.rank()) * 1000,
                         static_cast<char>('a' + ranks.rank()));
  const auto all = ranks.all_gather(bytes_of(mine));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks.size()));
  for (std::size_t r = 0; r < all.size(); ++r) {
    EXPECT_EQ(text_of(all[r]), std::string(r * 1000, static_cast<char>('a' + r)));
  }
}

inline void gathers_nothing_from_anyone(Communicator& ranks) {
  for (const Bytes& bytes : ranks.all_gather({})) EXPECT_TRUE(bytes.empty());
}

// A fast rank's next offer must not end up in the round that a slow one has not read yet.
inline void keeps_rounds_apart(Communicator& ranks) {
  for (int round = 0; round < 60; ++round) {
    pause_if(round % 20 == ranks.rank());
    const std::string expected = "round " + std::to_string(round);
    for (const Bytes& bytes : ranks.all_gather(bytes_of(expected))) {
      ASSERT_EQ(text_of(bytes), expected);
    }
  }
}

inline void maximum_is_of_each_element(Communicator& ranks) {
  const auto size = static_cast<std::uint32_t>(ranks.size());
  const auto rank = static_cast<std::uint32_t>(ranks.rank());
  std::vector<std::uint32_t> values(size + 1, 7);
  values[rank] = 100 + rank;
  values[size] = rank;
  ranks.all_reduce_max(values);
  for (std::uint32_t r = 0; r < size; ++r) EXPECT_EQ(values[r], 100 + r);
  EXPECT_EQ(values[size], size - 1);
}

// Bits of a NaN are larger than those of infinity, and both than any number's; as signed integers
// or as floats the order would be another one.
inline void maximum_is_of_unsigned_bits(Communicator& ranks) {
  const bool last = ranks.rank() == ranks.size() - 1;
  std::vector<std::uint32_t> values = {last ? 0x7fc00000U : 0x7f800000U, last ? 0x80000000U : 1U,
                                       last ? 0xffffffffU : 0U};
  ranks.all_reduce_max(values);
  EXPECT_EQ(values, (std::vector<std::uint32_t>{0x7fc00000U, 0x80000000U, 0xffffffffU}));
}

inline void maximum_of_nothing(Communicator& ranks) {
  std::vector<std::uint32_t> none;
  ranks.all_reduce_max(none);
  EXPECT_TRUE(none.empty());
}

// On one host all ranks read the same clock: nobody may be through before the last one came.
inline void barrier_holds_everyone(Communicator& ranks) {
  using Clock = std::chrono::steady_clock;
  pause_if(ranks.rank() == ranks.size() - 1);
  const auto came = Clock::now().time_since_epoch().count();
  ranks.barrier();
  const auto went = Clock::now().time_since_epoch().count();
  const auto all_came = ranks.all_gather(std::as_bytes(std::span(&came, 1)));
  for (const Bytes& bytes : all_came) {
    auto other = came;
    std::memcpy(&other, bytes.data(), sizeof other);
    EXPECT_LE(other, went) << "a rank passed the barrier before another had reached it";
  }
}

inline void failure_releases_the_rest(Communicator& ranks) {
  if (ranks.size() == 1) return;
  if (ranks.rank() == ranks.size() - 1) {
    pause_if(true);
    ranks.leave("out of paper");
    return;
  }
  try {
    ranks.barrier();
    ADD_FAILURE() << "the barrier ended although a rank had failed";
  } catch (const PeerFailed& failed) {
    const std::string expected = "rank " + std::to_string(ranks.size() - 1) + ": out of paper";
    EXPECT_NE(std::string(failed.what()).find(expected), std::string::npos) << failed.what();
  }
}

// Ranks that disagree must hear of it; carried on, one's numbers would be taken for another's.
inline void different_calls_are_an_error(Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::vector<std::uint32_t> values = {1};
  const auto call = [&] {
    if (ranks.rank() == 0) {
      ranks.barrier();
    } else {
      ranks.all_reduce_max(values);
    }
  };
  EXPECT_THROW(call(), Error);
}

inline void different_lengths_cannot_be_reduced(Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::vector<std::uint32_t> values(ranks.rank() == 0 ? 2 : 3, 1);
  EXPECT_THROW(ranks.all_reduce_max(values), Error);
}

inline const std::vector<Check>& checks() {
  static const std::vector<Check> all = {
      {"gathers_by_rank", gathers_by_rank},
      {"gathers_different_lengths", gathers_different_lengths},
      {"gathers_nothing_from_anyone", gathers_nothing_from_anyone},
      {"keeps_rounds_apart", keeps_rounds_apart},
      {"maximum_is_of_each_element", maximum_is_of_each_element},
      {"maximum_is_of_unsigned_bits", maximum_is_of_unsigned_bits},
      {"maximum_of_nothing", maximum_of_nothing},
      {"barrier_holds_everyone", barrier_holds_everyone},
      {"failure_releases_the_rest", failure_releases_the_rest},
      {"different_calls_are_an_error", different_calls_are_an_error},
      {"different_lengths_cannot_be_reduced", different_lengths_cannot_be_reduced},
  };
  return all;
}

}  // namespace resumecheck::conformance
