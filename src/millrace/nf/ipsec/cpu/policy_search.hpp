// Many policies for the classification engines.
#pragma once

#include <vector>

#include "millrace/nf/classify/bit_vector/vector_store.hpp"
#include "millrace/nf/classify/engine_choice.hpp"
#include "millrace/nf/image.hpp"
#include "millrace/nf/ipsec/model.hpp"

namespace millrace::nf::ipsec {

/// Builds the tables in which `search_policies` finds the first of `policies` that matches, by the engine that is best
/// for `searcher`, and hands them over to `image`; `tables` is a part of its Tables. Throws classify::TablesTooLarge
/// when they take more than 1 GiB.
void attach_policy_search(const std::vector<Policy>& policies, classify::Searcher searcher, Image& image,
                          classify::Classifier::Tables& tables);

}  // namespace millrace::nf::ipsec
