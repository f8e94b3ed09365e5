#include "harness/adapters/reference/model_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/scenario/model_schema.h"
#include "kernels/float_bits.h"

namespace resumecheck {
namespace {

using Floats = std::vector<float>;
using kernels::BlockContributions;
using kernels::BlockShape;
using kernels::ChunkRange;

// How tensor parallelism divides a parameter.
enum class Division { none, rows, columns };

struct Part {
  const char* name;
  Floats BlockContributions::*values;
  Division division;
  bool is_matrix;
};

constexpr Part parts[] = {
    {"norm.weight", &BlockContributions::norm_weight, Division::none, false},
    {"norm.bias", &BlockContributions::norm_bias, Division::none, false},
    {"fc1.weight", &BlockContributions::fc1_weight, Division::rows, true},
    {"fc1.bias", &BlockContributions::fc1_bias, Division::rows, false},
    {"fc2.weight", &BlockContributions::fc2_weight, Division::columns, true},
    {"fc2.bias", &BlockContributions::fc2_bias, Division::none, false},
};

int coordinate(const Mesh& mesh, int rank, const char* dim) {
  const auto coordinates = mesh.coordinates(rank);
  const auto found = coordinates.find(dim);
  return found == coordinates.end() ? 0 : found->second;
}

// The chunks of the hidden features that a rank computes.
ChunkRange held_by(const Mesh& mesh, int rank) {
  const Rows chunks = chunk(kernels::sum_chunks, mesh.size_of("tp"), coordinate(mesh, rank, "tp"));
  return {static_cast<int>(chunks.first), static_cast<int>(chunks.last)};
}

std::int64_t first_feature(const BlockShape& shape) {
  return kernels::chunk_begin(shape.hidden, shape.held.first);
}

void append(Floats& to, const Floats& from) { to.insert(to.end(), from.begin(), from.end()); }

// Rows of a micro-batch's values [rows][width].
Floats taken(const Floats& values, const std::vector<int>& samples, std::int64_t first,
             std::int64_t width) {
  Floats rows;
  for (const int sample : samples) {
    const auto begin = values.begin() + (sample - first) * width;
    rows.insert(rows.end(), begin, begin + width);
  }
  return rows;
}

void put(Floats& values, const std::vector<int>& samples, std::int64_t first, std::int64_t width,
         const float* rows) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::copy_n(rows + static_cast<std::int64_t>(i) * width, width,
                values.begin() + (samples[i] - first) * width);
  }
}

void write_samples(Floats& stream, const std::vector<int>& samples) {
  stream.push_back(static_cast<float>(samples.size()));
  for (const int sample : samples) stream.push_back(static_cast<float>(sample));
}

std::vector<int> read_samples(const float*& from) {
  std::vector<int> samples(static_cast<std::size_t>(*from++));
  for (int& sample : samples) sample = static_cast<int>(*from++);
  return samples;
}

// Of one sample, the elements that a rank gives to a parameter of [rows][columns], or of a vector.
struct Slice {
  std::int64_t rows = 1, columns = 1;  // of what is given
  std::int64_t begin = 0, stride = 0;  // in the whole parameter
  std::int64_t whole = 1;              // elements of the whole parameter
};

Slice slice_of(const Part& part, const BlockShape& shape) {
  const std::int64_t held = shape.held_hidden(), first = first_feature(shape);
  const std::int64_t width = shape.width, hidden = shape.hidden;
  if (part.division == Division::columns) return {width, held, first, hidden, width * hidden};
  if (part.division == Division::none) return {1, width, 0, width, width};
  return part.is_matrix ? Slice{held, width, first * width, width, hidden * width}
                        : Slice{1, held, first, held, hidden};
}

float added(float one, float other) {
  const float sum = one + other;
  return std::isnan(sum) ? kernels::float_of(0x7fc00000U) : sum;
}

}  // namespace

ModelPass::ModelPass(const Settings& settings, const StepInputs& inputs,
                     const WholeParameters& parameters, const std::vector<Fp8State>& fp8,
                     const Mesh& mesh, Communicator& ranks, const kernels::ModelKernels& kernels)
    : settings_(settings),
      inputs_(inputs),
      whole_(parameters),
      mesh_(mesh),
      ranks_(ranks),
      kernels_(kernels),
      shape_{settings.model.width, settings.model.hidden, held_by(mesh, ranks.rank())},
      first_of_tp_(coordinate(mesh, ranks.rank(), "tp") == 0),
      first_of_samples_(first_of_tp_ && coordinate(mesh, ranks.rank(), "pp") == 0 &&
                        coordinate(mesh, ranks.rank(), "ep") == 0),
      moves_(mesh.size_of("pp") > 1 || mesh.size_of("ep") > 1) {
  amaxes_.resize(fp8.size());
  for (std::size_t i = 0; i < fp8.size(); ++i) scaling_.push_back(fp8[i].scaling(amaxes_[i]));
  const std::int64_t experts = std::max<std::int64_t>(settings.model.experts, 1);
  units_.reserve(static_cast<std::size_t>(settings.model.layers * experts));
  for (std::int64_t layer = 0; layer < settings.model.layers; ++layer) {
    for (std::int64_t e = 0; e < experts; ++e) add_unit(layer, e);
  }
}

// Its parts that are the layer's own are those of the layer's first expert too.
void ModelPass::add_unit(std::int64_t layer, std::int64_t expert) {
  Unit unit = unit_of(layer, expert);
  for (std::size_t part = 0; part < std::size(parts); ++part) {
    const std::string parameter = parameter_name(settings_.model, layer, expert, parts[part].name);
    const auto known = std::find_if(uses_.begin(), uses_.end(), [&](const Use& use) {
      return use.layer == layer && use.parameter == parameter;
    });
    unit.uses.push_back(static_cast<std::size_t>(known - uses_.begin()));
    if (known == uses_.end()) uses_.push_back({layer, parameter, part, {}});
  }
  units_.push_back(std::move(unit));
}

ModelPass::Unit ModelPass::unit_of(std::int64_t layer, std::int64_t expert) const {
  Unit unit;
  unit.layer = layer;
  unit.expert = expert;
  const Rows layers = layers_at(settings_.model, mesh_, ranks_.rank());
  const Rows experts = experts_at(settings_.model, mesh_, ranks_.rank());
  unit.mine = layer >= layers.first && layer < layers.last && expert >= experts.first &&
              expert < experts.last;
  if (!unit.mine) return unit;
  const auto whole = [&](const char* name) { return whole_.of(layer, expert, name).data(); };
  const std::int64_t first = first_feature(shape_), held = shape_.held_hidden();
  unit.parameters = {
      whole("norm.weight"),      whole("norm.bias"),  whole("fc1.weight") + first * shape_.width,
      whole("fc1.bias") + first, whole("fc2.weight"), whole("fc2.bias")};
  if (held == shape_.hidden) return unit;
  for (std::int64_t row = 0; row < shape_.width; ++row) {
    const float* begin = whole("fc2.weight") + row * shape_.hidden + first;
    unit.fc2_weight.insert(unit.fc2_weight.end(), begin, begin + held);
  }
  unit.parameters.fc2_weight = unit.fc2_weight.data();
  return unit;
}

const kernels::BlockScaling* ModelPass::scaling(std::int64_t layer) const {
  return scaling_.empty() ? nullptr : &scaling_[static_cast<std::size_t>(layer)];
}

std::vector<ModelPass::Unit*> ModelPass::units_of(std::int64_t layer) {
  std::vector<Unit*> units;
  for (Unit& unit : units_) {
    if (unit.layer == layer) units.push_back(&unit);
  }
  return units;
}

// ---- between ranks -------------------------------------------------------------------------

std::vector<ModelPass::Floats> ModelPass::gather_all(const Floats& mine) {
  std::vector<Floats> all;
  for (const Bytes& bytes : ranks_.all_gather(std::as_bytes(std::span(mine)))) {
    all.emplace_back(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(all.back().data(), bytes.data(), bytes.size());
  }
  return all;
}

// Of the ranks that differ from this one in tp alone, in the order of their chunks.
void ModelPass::gather_chunks(Floats& chunk_sums) {
  const std::vector<Floats> all = gather_all(chunk_sums);
  std::map<std::string, int> mine = mesh_.coordinates(ranks_.rank());
  std::map<int, int> peers;  // coordinate -> rank
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    std::map<std::string, int> coordinates = mesh_.coordinates(rank);
    const int at = coordinates["tp"];
    coordinates["tp"] = mine["tp"];
    if (coordinates == mine) peers[at] = rank;
  }
  chunk_sums.clear();
  for (const auto& peer : peers) append(chunk_sums, all[static_cast<std::size_t>(peer.second)]);
}

void ModelPass::take_part_in_gathering() {
  if (mesh_.size_of("tp") > 1) gather_all({});
}

// Rows that a rank has computed become those of all ranks that have the same samples: of the next
// stage, and of the other experts.
void ModelPass::spread(const Samples& done, Rows batch, Floats& values) {
  if (!moves_) return;
  Floats stream;
  write_samples(stream, first_of_tp_ ? done : Samples());
  if (first_of_tp_) append(stream, taken(values, done, batch.first, shape_.width));
  for (const Floats& from : gather_all(stream)) {
    const float* at = from.data();
    for (const int sample : read_samples(at)) {
      if (sample >= batch.first && sample < batch.last) {
        put(values, {sample}, batch.first, shape_.width, at);
      }
      at += shape_.width;
    }
  }
}

// ---- one micro-batch -----------------------------------------------------------------------

ModelPass::Passage ModelPass::enter(const Unit& unit, Rows batch) const {
  Passage passage;
  if (!unit.mine) return passage;
  const std::int64_t experts = std::max<std::int64_t>(settings_.model.experts, 1);
  for (std::int64_t sample = batch.first; sample < batch.last; ++sample) {
    if (sample % experts == unit.expert) passage.samples.push_back(static_cast<int>(sample));
  }
  if (!inputs_.dropout) return passage;
  const std::int64_t first = first_feature(shape_);
  for (const int sample : passage.samples) {
    for (std::int64_t i = first; i < first + shape_.held_hidden(); ++i) {
      passage.dropout.push_back(inputs_.dropout(unit.layer, sample, i));
    }
  }
  return passage;
}

kernels::BlockPass ModelPass::pass_of(const Passage& passage) {
  kernels::BlockPass pass;
  if (inputs_.dropout) pass.dropout = passage.dropout.data();
  if (mesh_.size_of("tp") > 1) pass.gather = [this](Floats& sums) { gather_chunks(sums); };
  return pass;
}

void ModelPass::forward(Rows batch, Floats& values, std::vector<Passage>& passages) {
  for (std::int64_t layer = 0; layer < settings_.model.layers; ++layer) {
    const Floats x = values;
    Samples done;
    for (const Unit* unit : units_of(layer)) {
      Passage& passage = passages.emplace_back(enter(*unit, batch));
      if (passage.samples.empty()) {
        take_part_in_gathering();
        continue;
      }
      const Floats rows = taken(x, passage.samples, batch.first, shape_.width);
      Floats out(rows.size());
      passage.kept = kernels::forward_block(
          kernels_, shape_, unit->parameters, scaling(layer), rows.data(),
          static_cast<std::int64_t>(passage.samples.size()), out.data(), pass_of(passage));
      put(values, passage.samples, batch.first, shape_.width, out.data());
      done.insert(done.end(), passage.samples.begin(), passage.samples.end());
    }
    spread(done, batch, values);
  }
}

void ModelPass::backward(Rows batch, Floats& values, const std::vector<Passage>& passages) {
  const auto experts = static_cast<std::size_t>(std::max<std::int64_t>(settings_.model.experts, 1));
  for (std::int64_t layer = settings_.model.layers; layer-- > 0;) {
    const Floats dy = values;
    Samples done;
    for (const Unit* unit : units_of(layer)) {
      const Passage& passage = passages[static_cast<std::size_t>(layer) * experts +
                                        static_cast<std::size_t>(unit->expert)];
      if (passage.samples.empty()) {
        take_part_in_gathering();
        continue;
      }
      const Floats rows = taken(dy, passage.samples, batch.first, shape_.width);
      Floats dx(rows.size());
      give(*unit, passage,
           kernels::backward_block(kernels_, shape_, unit->parameters, scaling(layer), passage.kept,
                                   rows.data(), dx.data(), pass_of(passage)));
      put(values, passage.samples, batch.first, shape_.width, dx.data());
      done.insert(done.end(), passage.samples.begin(), passage.samples.end());
    }
    spread(done, batch, values);
  }
}

void ModelPass::run(Rows batch) {
  Floats values = samples_at(settings_, kernels::Stream::data, inputs_, batch);
  const Floats target = samples_at(settings_, kernels::Stream::targets, inputs_, batch);
  std::vector<Passage> passages;
  forward(batch, values, passages);
  const std::int64_t rows = batch.last - batch.first;
  Floats dy(values.size()), losses(static_cast<std::size_t>(rows));
  if (rows > 0) {
    kernels_.squared_error(values.data(), target.data(), rows, shape_.width, dy.data(),
                           losses.data());
  }
  if (first_of_samples_) {
    for (std::int64_t sample = batch.first; sample < batch.last; ++sample) {
      losses_.samples.push_back(static_cast<int>(sample));
    }
    append(losses_.values, losses);
  }
  backward(batch, dy, passages);
}

void ModelPass::give(const Unit& unit, const Passage& passage,
                     const BlockContributions& contributions) {
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    if (parts[i].division == Division::none && !first_of_tp_) continue;  // others give the same
    Given& given = uses_[unit.uses[i]].given;
    given.samples.insert(given.samples.end(), passage.samples.begin(), passage.samples.end());
    append(given.values, contributions.*parts[i].values);
  }
}

// ---- the sums ------------------------------------------------------------------------------

void ModelPass::add_loss(ModelStep& step, std::vector<const float*>& from) {
  Floats losses(kernels::sum_chunks);
  for (const float*& at : from) {
    for (const int sample : read_samples(at)) losses[static_cast<std::size_t>(sample)] = *at++;
  }
  kernels_.add_chunk_sums(losses.data(), 1, &step.loss);
}

// [24][elements of the whole parameter]; samples that gave nothing, and so add nothing, are zero.
ModelPass::Floats ModelPass::samples_of_use(const Use& use, std::vector<const float*>& from) {
  const Part& part = parts[use.part];
  Floats samples(static_cast<std::size_t>(kernels::sum_chunks *
                                          slice_of(part, {shape_.width, shape_.hidden}).whole));
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const float*& at = from[static_cast<std::size_t>(rank)];
    const Slice slice = slice_of(part, {shape_.width, shape_.hidden, held_by(mesh_, rank)});
    for (const int sample : read_samples(at)) {
      for (std::int64_t row = 0; row < slice.rows; ++row) {
        std::copy_n(at, slice.columns,
                    samples.begin() + sample * slice.whole + slice.begin + row * slice.stride);
        at += slice.columns;
      }
    }
  }
  return samples;
}

ModelPass::Floats ModelPass::gradient_of(const Use& use, const Floats& samples) const {
  const Part& part = parts[use.part];
  const BlockShape whole = {shape_.width, shape_.hidden};
  Floats gradient(samples.size() / kernels::sum_chunks);
  if (part.is_matrix) {
    kernels::add_weight_samples(kernels_, whole, scaling(use.layer),
                                part.division == Division::columns, samples.data(),
                                gradient.data());
  } else {
    kernels::add_samples(kernels_, samples.data(), static_cast<std::int64_t>(gradient.size()),
                         gradient.data());
  }
  return gradient;
}

ModelStep ModelPass::add() {
  Floats stream;
  write_samples(stream, losses_.samples);
  append(stream, losses_.values);
  for (const Use& use : uses_) {
    write_samples(stream, use.given.samples);
    append(stream, use.given.values);
  }
  const std::vector<Floats> all = gather_all(stream);
  std::vector<const float*> from;
  from.reserve(all.size());
  for (const Floats& one : all) from.push_back(one.data());
  ModelStep step;
  add_loss(step, from);
  for (const Use& use : uses_) {
    const Floats gradient = gradient_of(use, samples_of_use(use, from));
    const auto [known, is_first] = step.gradients.try_emplace(use.parameter, gradient);
    if (is_first) continue;
    for (std::size_t i = 0; i < gradient.size(); ++i) {  // tied: the layers in ascending order
      known->second[i] = added(known->second[i], gradient[i]);
    }
  }
  step.amaxes = amaxes_;
  return step;
}

}  // namespace resumecheck
