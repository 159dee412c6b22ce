// Joint updates: a schedule whose stages all wait for each other before they update.
#pragma once

#include "schedules/schedule.h"

namespace unlatch {

/// The same schedule where no stage is updated before the gradients of the batch are whole on all
/// stages, and summed over all copies: what a norm over the whole model needs, and a table of which
/// two stages hold copies. Every rank meets a barrier in front of the updates of a batch, which
/// come last.
/// Throws Error where a rank begins a batch before the gradients of another, and where copies do
/// more than sum up their gradients.
Schedule with_joint_updates(const Schedule& schedule);

}  // namespace unlatch
