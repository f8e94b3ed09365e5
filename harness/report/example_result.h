// For tests: the failure that the design shows, and a result with every field set.
#pragma once

#include "harness/compare/case_result.h"

namespace resumecheck {

// moment2.scale of ffn.up, rounded through bf16: 3 blocks of 24.
inline CaseResult example_failure() {
  CaseResult r;
  r.name = "adamw8bit/moments_survive_dp_shrink[reference,dp4->dp2]";
  r.scenario = "adamw8bit/moments_survive_dp_shrink";
  r.adapter = "reference";
  r.from = "dp4";
  r.onto = "dp2";
  r.verdict = Verdict::fail;
  r.failed_at = "after_load";
  r.save_after = 3;
  Difference d;
  d.key = {"ffn.up", "moment2.scale"};
  d.elements = 24;
  d.differing = 3;
  d.first_index = 17;
  d.block = 256;
  d.blocks = 24;
  d.differing_blocks = 3;
  d.first_block = 17;
  d.want = "0x3d1c4321  0.03815";
  d.got = "0x3d1c0000  0.0380859";
  r.first_difference = d;
  r.holders = {"saved by rank 2 of dp4", "held by rank 1 of dp2"};
  r.diagnosis.fits = {{"rounded through bf16", 3, 3, ""}};
  r.diagnosis.does_not_fit = {"fresh start", "one step stale", "another rank's shard",
                              "requantised"};
  r.parts = {{"param", {3, 3}},
             {"moment1.codes", {3, 3}},
             {"moment2.codes", {3, 3}},
             {"moment1.codebook", {3, 3}},
             {"moment2.codebook", {3, 3}},
             {"step", {3, 3}},
             {"moment1.scale", {3, 3}},
             {"moment2.scale", {2, 3}}};
  r.seconds = 1.25;
  r.again = "resumecheck run 'adamw8bit/moments_survive_dp_shrink[reference,dp4->dp2]'";
  r.artifacts = "out/artifacts/x";
  r.want_file = "out/artifacts/x/want.safetensors";
  r.got_file = "out/artifacts/x/got.safetensors";
  return r;
}

// Every field differs from its default, so that one that is not carried over shows.
inline CaseResult full_result() {
  CaseResult r = example_failure();
  r.adapter = "torchao";
  r.variant = "adamw8bit,bf16";
  r.save_environment = {"torch-2.8", {{"torch", "2.8.0"}, {"torchao", "0.12.0"}}};
  r.load_environment = {"torch-2.15", {{"torch", "2.15.0"}}};
  r.device = "cuda";
  r.stand_ins = {"nccl over host memory"};
  r.verdict = Verdict::xfail;
  r.symptom = "expected dtype \"bf16\"";
  r.reason = "a reason";
  r.known_broken = "pytorch/ao#3314";
  r.oracles = {{"after_load", "pass"}, {"trajectory", "fail"}, {"golden", "not_reached"}};
  r.compared_tensors = 12;
  r.compared_bytes = 5'000'000'000;
  r.first_difference->kind = Difference::Kind::dtype;
  r.first_difference->largest_ulp = 0xffffffffffffffffU;
  r.diagnosis.fits[0].detail = "rank 1 holds the shard of rank 2";
  r.notes = {"confirmed cold", "two dtypes"};
  r.process = "forked";
  r.transport = "gloo";
  r.golden = "0123456789abcdef0123456789abcdef";
  r.attempt = 2;
  return r;
}

inline CaseResult result_of_verdict(const std::string& name, Verdict verdict) {
  CaseResult r;
  r.scenario = name.substr(0, name.find('['));
  r.name = name;
  r.adapter = "reference";
  r.from = r.onto = "dp2";
  r.verdict = verdict;
  r.seconds = 1;
  return r;
}

}  // namespace resumecheck
