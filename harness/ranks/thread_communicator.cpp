// A meeting is one collective call: the last rank to come takes everybody's offer and starts the
// next one, so that a fast rank can never put its second offer into the first meeting.
#include "harness/ranks/thread_communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

using Offers = std::vector<Bytes>;

class Meeting {
 public:
  Meeting(int ranks, double limit_seconds)
      : offers_(static_cast<std::size_t>(ranks)), limit_(limit_seconds) {}

  int size() const { return static_cast<int>(offers_.size()); }

  std::shared_ptr<const Offers> meet(int rank, std::string_view call, Bytes offer) {
    std::unique_lock lock(mutex_);
    throw_if_over();
    if (arrived_ > 0 && call != call_) {
      end_with(Ending::problem, "rank " + std::to_string(rank) + " calls " + std::string(call) +
                                    " while another calls " + std::string(call_));
      throw_if_over();
    }
    call_ = call;
    offers_[static_cast<std::size_t>(rank)] = std::move(offer);
    if (++arrived_ == size()) return open();
    const std::uint64_t mine = number_;
    const bool answered = opened_.wait_for(lock, std::chrono::duration<double>(limit_),
                                           [&] { return number_ != mine || ending_; });
    if (number_ != mine) return last_;
    if (!answered) {
      end_with(Ending::problem, std::to_string(size() - arrived_) + " of " +
                                    std::to_string(size()) + " ranks did not come to " +
                                    std::string(call) + " within " + std::to_string(limit_) + " s");
    }
    throw_if_over();
    throw std::logic_error("a meeting ended without an answer");
  }

  void leave(int rank, std::string_view why) {
    const std::scoped_lock lock(mutex_);
    if (!ending_) {
      end_with(Ending::peer,
               "another rank failed: rank " + std::to_string(rank) + ": " + std::string(why));
    }
  }

  // After the body: nobody can meet this rank any more.
  void end(int rank) {
    const std::scoped_lock lock(mutex_);
    gone_ = rank;
    if (arrived_ > 0 && !ending_) end_with(Ending::peer, gone_text());
  }

 private:
  enum class Ending { peer, problem };

  std::shared_ptr<const Offers> open() {
    last_ = std::make_shared<const Offers>(std::move(offers_));
    offers_ = Offers(last_->size());
    arrived_ = 0;
    ++number_;
    opened_.notify_all();
    return last_;
  }

  std::string gone_text() const {
    return "another rank failed: rank " + std::to_string(*gone_) +
           " ended without coming to every call";
  }

  void end_with(Ending ending, std::string text) {
    ending_ = ending;
    ending_text_ = std::move(text);
    opened_.notify_all();
  }

  void throw_if_over() {
    if (!ending_ && gone_) end_with(Ending::peer, gone_text());
    if (!ending_) return;
    if (*ending_ == Ending::peer) throw PeerFailed(ending_text_);
    throw Error(Error::Kind::harness, "ranks", ending_text_);
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  Offers offers_;
  int arrived_ = 0;
  std::uint64_t number_ = 0;
  std::string_view call_;  // of the ranks that have arrived; always a literal
  std::shared_ptr<const Offers> last_;
  std::optional<Ending> ending_;
  std::string ending_text_;
  std::optional<int> gone_;
  double limit_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_.size(); }
  std::string_view transport() const override { return "threads"; }
  void barrier() override { meeting_.meet(rank_, "barrier", {}); }

  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return *meeting_.meet(rank_, "all_gather", Bytes(mine.begin(), mine.end()));
  }

  void all_reduce_max(std::span<std::uint32_t> values) override {
    const auto mine = std::as_bytes(values);
    const auto all = meeting_.meet(rank_, "all_reduce_max", Bytes(mine.begin(), mine.end()));
    for (const Bytes& other : *all) {
      if (other.size() != mine.size()) {
        throw Error(Error::Kind::harness, "ranks", "ranks reduce different numbers of values");
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t value;
        std::memcpy(&value, other.data() + i * sizeof value, sizeof value);
        values[i] = std::max(values[i], value);
      }
    }
  }

  void leave(std::string_view why) override { meeting_.leave(rank_, why); }

 private:
  Meeting& meeting_;
  int rank_;
};

// The first exception that is a rank's own; ranks that were only released do not count.
class FirstFailure {
 public:
  void note(std::exception_ptr failure, bool only_waited) {
    const std::scoped_lock lock(mutex_);
    if (!first_ || (first_only_waited_ && !only_waited)) {
      first_ = std::move(failure);
      first_only_waited_ = only_waited;
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  bool first_only_waited_ = false;
};

void run_one(Meeting& meeting, int rank, const std::function<void(Communicator&)>& body,
             FirstFailure& failure) {
  ThreadRank communicator(meeting, rank);
  try {
    body(communicator);
  } catch (const PeerFailed&) {
    failure.note(std::current_exception(), true);
  } catch (const std::exception& problem) {
    failure.note(std::current_exception(), false);
    communicator.leave(problem.what());
  } catch (...) {
    failure.note(std::current_exception(), false);
    communicator.leave("an exception that is no std::exception");
  }
  meeting.end(rank);
}

// Nobody to wait for.
class LoneRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view transport() const override { return "threads"; }
  void barrier() override {}
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return {Bytes(mine.begin(), mine.end())};
  }
  void all_reduce_max(std::span<std::uint32_t>) override {}
  void leave(std::string_view) override {}
};

}  // namespace

std::unique_ptr<Communicator> single_rank() { return std::make_unique<LoneRank>(); }

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, double limit_seconds) {
  if (ranks < 1) throw Error(Error::Kind::usage, "ranks", "there must be at least one rank");
  Meeting meeting(ranks, limit_seconds);
  FirstFailure failure;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { run_one(meeting, rank, body, failure); });
  }
  for (std::thread& thread : threads) thread.join();
  failure.rethrow();
}

}  // namespace resumecheck
