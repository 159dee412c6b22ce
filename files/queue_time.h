// queue_time: how long a table takes where the messages of a rank stand in one queue.
//
// Pipeline runtimes that give a rank one stream for its work and one for its messages behave so: a
// receive that waits holds up the sends behind it.
#pragma once

#include "files/actions.h"

namespace unlatch::files {

/// End of the last action when every rank runs its work in the order of its row and, beside it, its
/// messages in theirs: a send when its producer is done, at once (buffered); a receive when its
/// message was sent. F, I and W take 1, B takes 2, messages nothing; waits for sends are left out.
/// Throws Error for rows that wait for each other.
int queue_time(const ActionTable& table);

}  // namespace unlatch::files
