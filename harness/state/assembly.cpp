#include "harness/state/assembly.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

using Kind = AssemblyProblem::Kind;

std::string bits_text(const std::byte* element, std::size_t size) {
  std::string text;  // little-endian storage, most significant byte first
  for (std::size_t i = size; i-- > 0;)
    text += fmt::format("{:02x}", static_cast<unsigned>(element[i]));
  return "0x" + text;
}

struct Claim {  // a region that one rank's piece filled first
  Box region;
  int rank;
};

// Builds one tensor out of pieces that may overlap.
class TensorAssembly {
 public:
  // given: elements of all pieces together. Fewer than the tensor has cannot fill it, and then no
  // memory is taken for a global shape that may be absurd.
  TensorAssembly(const TensorKey& key, const Piece& first, int rank, std::int64_t given)
      : key_(key), described_by_(rank), keeps_bytes_(given >= element_count(first.global_shape)) {
    tensor_.dtype = first.dtype;
    tensor_.shape = first.global_shape;
    tensor_.block = first.block;
    elements_ = element_count(first.global_shape);
    if (keeps_bytes_) tensor_.bytes.resize(elements_ * size_of(first.dtype));
  }

  // What contradicts the ranks before, or nothing.
  std::vector<AssemblyProblem> add(const Piece& piece, int rank) {
    if (const std::string what = contradiction(piece, rank); !what.empty()) {
      return {{Kind::description_disagrees, key_, what}};
    }
    std::vector<AssemblyProblem> problems;
    std::vector<Box> unclaimed = {piece.box};
    for (const Claim& claim : claims_) {
      const std::optional<Box> shared = claim.region.intersection(piece.box);
      if (!shared) continue;
      if (keeps_bytes_) {
        if (const auto problem = disagreement(*shared, claim, piece, rank)) {
          problems.push_back(*problem);
        }
      }
      subtract(unclaimed, *shared);
    }
    for (const Box& region : unclaimed) {
      if (region.empty()) continue;
      if (keeps_bytes_) {
        copy_region(region, piece.box, piece.bytes, whole(), tensor_.bytes, size_of(piece.dtype));
      }
      claims_.push_back({region, rank});
      covered_ += region.element_count();
    }
    return problems;
  }

  std::optional<AssemblyProblem> hole() const {
    if (covered_ == elements_) return std::nullopt;
    std::vector<Box> rest = {whole()};
    for (const Claim& claim : claims_) subtract(rest, claim.region);
    std::int64_t first = elements_;
    for (const Box& region : rest) first = std::min(first, first_index(region, whole()));
    return AssemblyProblem{
        Kind::hole, key_,
        fmt::format("hole in {}: {} of {} elements are held by no rank, element {} first",
                    to_text(key_), elements_ - covered_, elements_, first)};
  }

  LogicalTensor take() { return std::move(tensor_); }

 private:
  Box whole() const { return Box::whole(tensor_.shape); }

  static void subtract(std::vector<Box>& boxes, const Box& hole) {
    std::vector<Box> rest;
    for (const Box& box : boxes) {
      for (Box& part : difference(box, hole)) rest.push_back(std::move(part));
    }
    boxes = std::move(rest);
  }

  std::string contradiction(const Piece& piece, int rank) const {
    const auto says = [&](const std::string& first, const std::string& second) {
      return fmt::format("ranks describe {} differently: {} on rank {}, {} on rank {}",
                         to_text(key_), first, described_by_, second, rank);
    };
    if (piece.dtype != tensor_.dtype) {
      return says(std::string(name_of(tensor_.dtype)), std::string(name_of(piece.dtype)));
    }
    if (piece.global_shape != tensor_.shape) {
      return says("shape " + to_text(tensor_.shape), "shape " + to_text(piece.global_shape));
    }
    if (piece.block != tensor_.block) {
      return says(fmt::format("block {}", tensor_.block), fmt::format("block {}", piece.block));
    }
    if (!piece.box.inside(piece.global_shape)) {
      return fmt::format("box {} of {} on rank {} reaches outside {}", to_text(piece.box),
                         to_text(key_), rank, to_text(piece.global_shape));
    }
    if (piece.bytes.size() != piece.box.element_count() * size_of(piece.dtype)) {
      return fmt::format("box {} of {} on rank {} has {} bytes, not {} elements of {}",
                         to_text(piece.box), to_text(key_), rank, piece.bytes.size(),
                         piece.box.element_count(), name_of(piece.dtype));
    }
    return "";
  }

  std::optional<AssemblyProblem> disagreement(const Box& shared, const Claim& claim,
                                              const Piece& piece, int rank) const {
    const std::size_t size = size_of(piece.dtype);
    std::int64_t first = -1;
    std::string mine, theirs;
    std::int64_t differing = 0;
    for_each_run(shared, whole(), piece.box,
                 [&](std::int64_t in_tensor, std::int64_t in_piece, std::int64_t length) {
                   const std::byte* held = tensor_.bytes.data() + in_tensor * size;
                   const std::byte* given = piece.bytes.data() + in_piece * size;
                   if (std::memcmp(held, given, length * size) == 0) return;
                   for (std::int64_t i = 0; i < length; ++i) {
                     if (std::memcmp(held + i * size, given + i * size, size) == 0) continue;
                     ++differing;
                     if (first >= 0) continue;
                     first = in_tensor + i;
                     theirs = bits_text(held + i * size, size);
                     mine = bits_text(given + i * size, size);
                   }
                 });
    if (first < 0) return std::nullopt;
    return AssemblyProblem{
        Kind::replicas_disagree, key_,
        fmt::format("replicas of {} disagree: element {} is {} on rank {}, {} on rank {}; {} of {} "
                    "shared elements differ",
                    to_text(key_), first, theirs, claim.rank, mine, rank, differing,
                    shared.element_count())};
  }

  TensorKey key_;
  int described_by_;
  bool keeps_bytes_;
  LogicalTensor tensor_;
  std::int64_t elements_ = 0;
  std::int64_t covered_ = 0;
  std::vector<Claim> claims_;  // disjoint
};

std::string describe_value(const std::map<std::string, Value>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "absent" : to_text(found->second);
}

// "rng/rank3" is rank 3's own word, which no other rank repeats; nothing for what all ranks say.
std::optional<int> owner_of(const std::string& value_name) {
  static constexpr std::string_view kOwned = "/rank";
  const std::size_t at = value_name.rfind(kOwned);
  if (at == std::string::npos) return std::nullopt;
  const char* begin = value_name.data() + at + kOwned.size();
  const char* end = value_name.data() + value_name.size();
  int rank = 0;
  const auto [stopped, problem] = std::from_chars(begin, end, rank);
  if (problem != std::errc() || stopped != end || rank < 0) return std::nullopt;
  return rank;
}

// What a rank says of its own, without the rank: "rng".
std::set<std::string> owned_names(const RankState& rank) {
  std::set<std::string> names;
  for (const auto& [name, value] : rank.values) {
    if (owner_of(name)) names.insert(name.substr(0, name.rfind('/')));
  }
  return names;
}

std::string contradiction_of_owned(const RankState& first, const RankState& other) {
  for (const auto& [name, value] : other.values) {
    const std::optional<int> owner = owner_of(name);
    if (owner && *owner != other.rank) {
      return fmt::format("value {} is told by rank {}", name, other.rank);
    }
  }
  const std::set<std::string> one = owned_names(first), two = owned_names(other);
  if (one == two) return "";
  return fmt::format("ranks disagree about which values are their own: '{}' on rank {}, '{}' on {}",
                     fmt::join(one, ", "), first.rank, fmt::join(two, ", "), other.rank);
}

// The first way in which the rank's own words (not its tensors) differ from those of the first
// rank.
std::string contradiction(const RankState& first, const RankState& other) {
  const auto says = [&](const std::string& what, const std::string& one, const std::string& two) {
    return fmt::format("ranks disagree about {}: {} on rank {}, {} on rank {}", what, one,
                       first.rank, two, other.rank);
  };
  if (first.mesh != other.mesh) return says("the mesh", first.mesh, other.mesh);
  if (first.world != other.world) {
    return says("the world", std::to_string(first.world), std::to_string(other.world));
  }
  if (first.step != other.step) {
    return says("the step", std::to_string(first.step), std::to_string(other.step));
  }
  std::map<std::string, Value> all = first.values;
  all.insert(other.values.begin(), other.values.end());
  for (const auto& [name, value] : all) {
    if (owner_of(name)) continue;
    const std::string one = describe_value(first.values, name);
    const std::string two = describe_value(other.values, name);
    const bool on_both = first.values.contains(name) && other.values.contains(name);
    if (!on_both || one != two || first.values.at(name).index() != other.values.at(name).index()) {
      return says("value " + name, one, two);
    }
  }
  return contradiction_of_owned(first, other);
}

void check_ranks(const std::vector<RankState>& ranks, std::vector<AssemblyProblem>& problems) {
  std::set<int> seen;
  for (const RankState& rank : ranks) {
    if (!seen.insert(rank.rank).second) {
      problems.push_back({Kind::description_disagrees,
                          {},
                          fmt::format("two states say that they are of rank {}", rank.rank)});
    }
    if (const std::string what = contradiction(ranks.front(), rank); !what.empty()) {
      problems.push_back({Kind::description_disagrees, {}, what});
    }
  }
  const int world = ranks.empty() ? 0 : ranks.front().world;
  for (int rank = 0; rank < world; ++rank) {
    if (!seen.contains(rank)) {
      problems.push_back(
          {Kind::rank_missing, {}, fmt::format("rank {} of {} left no state", rank, world)});
    }
  }
}

}  // namespace

Assembly assemble(const std::vector<RankState>& ranks) {
  Assembly assembly;
  if (ranks.empty()) {
    assembly.problems.push_back({Kind::rank_missing, {}, "no rank left a state"});
    return assembly;
  }
  check_ranks(ranks, assembly.problems);
  AssembledState& whole = assembly.assembled;
  whole.mesh = ranks.front().mesh;
  whole.world = ranks.front().world;
  whole.state.step = ranks.front().step;
  whole.state.values = ranks.front().values;
  for (const RankState& rank : ranks) {
    for (const auto& [name, value] : rank.values) {
      if (owner_of(name)) whole.state.values.emplace(name, value);
    }
  }

  std::map<TensorKey, std::int64_t> given;
  for (const RankState& rank : ranks) {
    for (const Piece& piece : rank.pieces) given[piece.key] += piece.box.element_count();
  }
  std::map<TensorKey, TensorAssembly> tensors;
  for (const RankState& rank : ranks) {
    for (const Piece& piece : rank.pieces) {
      auto [tensor, is_new] =
          tensors.try_emplace(piece.key, piece.key, piece, rank.rank, given.at(piece.key));
      for (AssemblyProblem& problem : tensor->second.add(piece, rank.rank)) {
        assembly.problems.push_back(std::move(problem));
      }
      if (!piece.box.empty()) whole.holders[piece.key].push_back({rank.rank, piece.box});
    }
  }
  for (auto& [key, tensor] : tensors) {
    if (const auto hole = tensor.hole()) {
      assembly.problems.push_back(*hole);
    } else {
      whole.state.tensors.emplace(key, tensor.take());
    }
  }
  return assembly;
}

Assembly read_states(const std::filesystem::path& directory, int world) {
  std::vector<RankState> ranks;
  std::vector<AssemblyProblem> missing;
  for (int rank = 0; rank < world; ++rank) {
    const std::filesystem::path file = directory / state_file_name(rank);
    std::error_code unreachable;
    if (!std::filesystem::exists(file, unreachable)) {
      missing.push_back(
          {Kind::rank_missing,
           {},
           fmt::format("rank {} of {} left no state: {} is missing", rank, world, file.string())});
      continue;
    }
    ranks.push_back(read_rank_state(file));
    const RankState& state = ranks.back();
    if (state.rank != rank || state.world != world) {
      throw Error(Error::Kind::harness, file.string(),
                  fmt::format("says that it is of rank {} of {}, but rank {} of {} was to write it",
                              state.rank, state.world, rank, world));
    }
  }
  if (ranks.empty()) return {{}, std::move(missing)};
  Assembly assembly = assemble(ranks);
  std::erase_if(assembly.problems, [](const AssemblyProblem& problem) {
    return problem.kind == Kind::rank_missing;  // said below with the file's name
  });
  assembly.problems.insert(assembly.problems.begin(), std::make_move_iterator(missing.begin()),
                           std::make_move_iterator(missing.end()));
  return assembly;
}

}  // namespace resumecheck
