// Overloaded: a visitor of a variant made of lambdas.
#pragma once

namespace unlatch::models {

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace unlatch::models
