//! Timers of a held stream: keep-alive and link.

use throng_grip::hold::keep_alive_at;
use throng_grip::instruct::KeepAliveMode;
use throng_metrics::Counter;

use crate::context::Cx;
use crate::held::Held;

impl Held {
    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.closing {
            return;
        }
        self.keep_alive(cx);
        let idle_ms = self.idle_ms(cx.now);
        let is_due = match self.state.follow.as_mut() {
            Some(follow) if self.state.fetch.is_none() => follow.is_due(idle_ms, cx.now),
            _ => false,
        };
        if is_due {
            self.fetch_link(cx);
        }
        self.arm(cx);
    }

    fn keep_alive(&mut self, cx: &mut Cx<'_>) {
        let Some(keep_alive) = self.state.keep_alive.clone() else {
            return;
        };
        if cx.now.mono < self.state.beat_at || self.state.fetch.is_some() {
            return;
        }
        let period_ms = u64::from(keep_alive.timeout_s) * 1000;
        let idle_ms = self.idle_ms(cx.now);
        // Something was sent since the deadline was set: the silence began later.
        let slack_ms = throng_grip::hold::KEEP_ALIVE_SPREAD_MS.min(period_ms / 2);
        if keep_alive.mode == KeepAliveMode::Idle && idle_ms + slack_ms < period_ms {
            self.state.beat_at = cx.now.mono + (period_ms - idle_ms);
            return;
        }
        cx.count(Counter::Pings);
        cx.own.stats(|book| book.beat(cx.id));
        self.write(&keep_alive.data, cx);
        let chance = cx.own.chance();
        self.state.beat_at = keep_alive_at(&keep_alive, cx.now.mono, chance);
    }

    /// Sets the deadline to the earliest timer.
    pub(crate) fn arm(&self, cx: &mut Cx<'_>) {
        if self.closing {
            return;
        }
        let state = &self.state;
        let beat = state.keep_alive.is_some() && state.fetch.is_none();
        let beat = beat.then_some(state.beat_at);
        let link = state.follow.as_ref().filter(|_| state.fetch.is_none());
        let link = link.and_then(|follow| follow.link_at());
        cx.set_deadline([beat, link].into_iter().flatten().min());
    }
}
