// Clipping by the norm of all gradients. The norm is of whole gradients, in an order that no mesh
// can change: one taken of each rank's shards, or added in the order of the ranks, clips every mesh
// another way.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace resumecheck {

// Of each tensor 24 chunks, each added in ascending order and then the chunks; the tensors in the
// order of their names.
float norm_of(const std::map<std::string, std::vector<float>>& gradients);

// What gradients of that norm are multiplied by: 1 where it is small enough.
float clip_coefficient(double clip_norm, float norm);

void multiply(std::vector<float>& gradient, float coefficient);

}  // namespace resumecheck
