// Each call is two exchanges: a header of fixed size that says which call this is, how long the
// payload is and whether the rank has failed; then, if all agree, the payload. Waiting sleeps
// between polls, since ranks often outnumber cores and a spinning rank would starve the one it
// waits for.
#include "harness/ranks/mpi_communicator.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

enum class Call : std::uint64_t { barrier = 1, all_gather = 2, all_reduce_max = 3, leave = 4 };

const char* name_of(Call call) {
  switch (call) {
    case Call::barrier:
      return "barrier";
    case Call::all_gather:
      return "all_gather";
    case Call::all_reduce_max:
      return "all_reduce_max";
    case Call::leave:
      return "leave";
  }
  return "an unknown call";
}

struct Header {
  std::uint64_t call = 0;
  std::uint64_t length = 0;  // bytes
};

// What one exchange reads and writes. Owned by a shared_ptr that a timed-out exchange leaks on
// purpose: MPI may still write there.
struct Buffers {
  Bytes mine;
  Bytes all;
  std::vector<int> lengths, offsets;
};

class MpiRank final : public Communicator {
 public:
  MpiRank(MPI_Comm communicator, double limit_seconds)
      : communicator_(communicator), limit_(limit_seconds) {
    MPI_Comm_rank(communicator_, &rank_);
    MPI_Comm_size(communicator_, &size_);
  }
  ~MpiRank() override {
    if (!stuck_) MPI_Comm_free(&communicator_);
  }
  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view transport() const override { return "mpi"; }
  void barrier() override { agree(Call::barrier, 0); }

  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    const std::vector<Header> headers = agree(Call::all_gather, mine.size());
    return gather(mine, headers);
  }

  void all_reduce_max(std::span<std::uint32_t> values) override {
    const std::vector<Header> headers = agree(Call::all_reduce_max, values.size_bytes());
    for (const Header& header : headers) {
      if (header.length != values.size_bytes()) {
        over_ = true;  // on every rank alike: all see the same headers
        throw Error(Error::Kind::harness, "ranks", "ranks reduce different numbers of values");
      }
    }
    auto* buffers = new Buffers;
    const auto bytes = std::as_bytes(values);
    buffers->mine.assign(bytes.begin(), bytes.end());
    buffers->all.resize(bytes.size());
    MPI_Request request;
    MPI_Iallreduce(buffers->mine.data(), buffers->all.data(), static_cast<int>(values.size()),
                   MPI_UINT32_T, MPI_MAX, communicator_, &request);
    wait(request, "all_reduce_max");
    std::copy(buffers->all.begin(), buffers->all.end(), std::as_writable_bytes(values).begin());
    delete buffers;
  }

  void leave(std::string_view why) override {
    if (over_) return;
    const auto text = std::as_bytes(std::span(why.data(), why.size()));
    try {
      gather_last_words(exchange_headers(Call::leave, text.size()), text);
    } catch (const std::exception&) {  // it has already failed; the others hear of it or time out
    }
    over_ = true;
  }

 private:
  std::vector<Header> exchange_headers(Call call, std::size_t length) {
    if (over_) {
      throw Error(Error::Kind::harness, "ranks", "a call on ranks that have already failed");
    }
    auto* mine = new Header{static_cast<std::uint64_t>(call), length};
    auto* all = new std::vector<Header>(static_cast<std::size_t>(size_));
    MPI_Request request;
    MPI_Iallgather(mine, sizeof *mine, MPI_BYTE, all->data(), sizeof *mine, MPI_BYTE, communicator_,
                   &request);
    wait(request, name_of(call));
    std::vector<Header> headers = std::move(*all);
    delete mine;
    delete all;
    return headers;
  }

  // Comes to an agreement with all ranks about what is called, or throws the same on all.
  std::vector<Header> agree(Call call, std::size_t length) {
    std::vector<Header> headers = exchange_headers(call, length);
    const auto failed = [](const Header& header) {
      return header.call == static_cast<std::uint64_t>(Call::leave);
    };
    if (std::any_of(headers.begin(), headers.end(), failed)) {
      over_ = true;
      throw PeerFailed(gather_last_words(headers, {}));
    }
    for (int other = 0; other < size_; ++other) {
      const Header& header = headers[static_cast<std::size_t>(other)];
      if (header.call == headers[0].call) continue;
      over_ = true;
      throw Error(Error::Kind::harness, "ranks",
                  "rank " + std::to_string(other) + " calls " +
                      name_of(static_cast<Call>(header.call)) + " while rank 0 calls " +
                      name_of(static_cast<Call>(headers[0].call)));
    }
    return headers;
  }

  // The ranks that failed send their reason; the rest, which planned another payload, send nothing.
  std::string gather_last_words(std::vector<Header> headers, std::span<const std::byte> mine) {
    for (Header& header : headers) {
      if (header.call != static_cast<std::uint64_t>(Call::leave)) header.length = 0;
    }
    const std::vector<Bytes> words = gather(mine, headers);
    for (std::size_t other = 0; other < headers.size(); ++other) {
      if (headers[other].call != static_cast<std::uint64_t>(Call::leave)) continue;
      return "another rank failed: rank " + std::to_string(other) + ": " +
             std::string(reinterpret_cast<const char*>(words[other].data()), words[other].size());
    }
    return "another rank failed";
  }

  std::vector<Bytes> gather(std::span<const std::byte> mine, const std::vector<Header>& headers) {
    auto* buffers = new Buffers;
    buffers->mine.assign(mine.begin(), mine.end());
    std::uint64_t total = 0;
    for (const Header& header : headers) {
      buffers->offsets.push_back(static_cast<int>(total));
      buffers->lengths.push_back(static_cast<int>(header.length));
      total += header.length;
      if (total > INT_MAX) {
        over_ = true;
        throw Error(Error::Kind::harness, "ranks", "all_gather of more than 2 GiB");
      }
    }
    buffers->all.resize(total);
    MPI_Request request;
    MPI_Iallgatherv(buffers->mine.data(), static_cast<int>(mine.size()), MPI_BYTE,
                    buffers->all.data(), buffers->lengths.data(), buffers->offsets.data(), MPI_BYTE,
                    communicator_, &request);
    wait(request, "all_gather");
    std::vector<Bytes> result;
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const auto first = buffers->all.begin() + buffers->offsets[i];
      result.emplace_back(first, first + buffers->lengths[i]);
    }
    delete buffers;
    return result;
  }

  void wait(MPI_Request& request, const char* call) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int polls = 0;; ++polls) {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) return;
      if (polls < 100) {
        sched_yield();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(polls < 1000 ? 50 : 500));
      if (std::chrono::duration<double>(Clock::now() - begin).count() < limit_) continue;
      over_ = stuck_ = true;
      throw Error(Error::Kind::harness, "ranks",
                  std::string("not every rank came to ") + call + " within " +
                      std::to_string(limit_) + " s",
                  "a rank hangs or has died; its stacks say where");
    }
  }

  MPI_Comm communicator_;
  double limit_;
  int rank_ = 0;
  int size_ = 1;
  bool over_ = false;   // a call has failed: nothing can be agreed on any more
  bool stuck_ = false;  // an exchange never ended: MPI still owns its buffers
};

}  // namespace

MpiJob::MpiJob(int* argc, char*** argv, double limit_seconds) : limit_seconds_(limit_seconds) {
  int provided = 0;
  // The watchdog's thread may have to end the job while another is inside MPI.
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  world_ = std::make_unique<MpiRank>(copy, limit_seconds_);
}

MpiJob::~MpiJob() {
  world_.reset();
  MPI_Finalize();
}

std::unique_ptr<Communicator> MpiJob::part(bool member, int order) {
  MPI_Comm split;
  MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : MPI_UNDEFINED, order, &split);
  if (split == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiRank>(split, limit_seconds_);
}

void MpiJob::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace resumecheck
