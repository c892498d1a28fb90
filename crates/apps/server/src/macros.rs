//! The macro that makes a list of gateways.

/// Makes a [`GatewayList`](crate::GatewayList): its struct with a `Slot` for each gateway, and
/// the enums of its sessions, orders and mail.
///
/// ```ignore
/// gateways! {
///     pub struct Gateways {
///         plain: Plain(PlainGateway),
///         other: Other(OtherGateway),
///     }
///     sessions Session, orders GatewayOrder, mail GatewayMail
/// }
/// ```
#[macro_export]
macro_rules! gateways {
    (
        $(#[$doc:meta])*
        $vis:vis struct $List:ident { $($field:ident: $Variant:ident($Gateway:ty)),+ $(,)? }
        sessions $Session:ident, orders $OrderEnum:ident, mail $MailEnum:ident
    ) => {
        $(#[$doc])*
        #[expect(missing_docs, reason = "the fields are the gateways")]
        #[derive(Default)]
        $vis struct $List { $(pub $field: Option<$crate::Slot<$Gateway>>),+ }

        /// A session of the front door or of any gateway of the list.
        #[expect(missing_docs, reason = "the variants are the gateways")]
        $vis enum $Session {
            /// Front door: the session takes HTTP requests.
            Http($crate::parts::Http),
            $($Variant(<$Gateway as $crate::parts::Family>::Session)),+
        }

        /// An order of any gateway of the list.
        #[expect(missing_docs, reason = "the variants are the gateways")]
        #[derive(Debug)]
        $vis enum $OrderEnum { $($Variant(<$Gateway as $crate::parts::Family>::Order)),+ }

        /// Mail of any gateway of the list.
        #[expect(missing_docs, reason = "the variants are the gateways")]
        $vis enum $MailEnum { $($Variant(<$Gateway as $crate::parts::Family>::Mail)),+ }

        const _: () = {
            use $crate::parts::*;

            /// The places of the gateways.
            #[repr(u8)]
            enum Number { $($Variant),+ }

            /// Returns the number of wire forms before a gateway's.
            const fn forms_before(number: u8) -> u8 {
                let forms = [$(<$Gateway as Gateway>::FORMS.len()),+];
                let (mut sum, mut at) = (0, 0);
                while at < number as usize {
                    sum += forms[at];
                    at += 1;
                }
                sum as u8
            }
            const FORMS: u8 = forms_before([$(Number::$Variant as u8),+].len() as u8);
            const _: () = assert!(FORMS <= Format::COUNT, "too many wire forms");

            $(impl $crate::Holds<$Gateway> for $List {
                const NUMBER: u8 = Number::$Variant as u8;
                const FORMS_FROM: u8 = forms_before(Number::$Variant as u8);

                fn session(
                    session: &mut $Session,
                ) -> Option<&mut <$Gateway as Family>::Session> {
                    match session {
                        $Session::$Variant(session) => Some(session),
                        _ => None,
                    }
                }

                fn wrap_order(order: <$Gateway as Family>::Order) -> $OrderEnum {
                    $OrderEnum::$Variant(order)
                }

                fn wrap_mail(mail: <$Gateway as Family>::Mail) -> $MailEnum {
                    $MailEnum::$Variant(mail)
                }
                fn unwrap_mail(
                    mail: $MailEnum,
                ) -> Result<<$Gateway as Family>::Mail, $MailEnum> {
                    match mail {
                        $MailEnum::$Variant(mail) => Ok(mail),
                        other => Err(other),
                    }
                }
            })+

            impl $crate::GatewayList for $List {
                type Session = $Session;
                type Order = $OrderEnum;
                type Mail = $MailEnum;

                const NAMESPACES: &'static [&'static [&'static str]] =
                    &[$(<$Gateway as Gateway>::NAMESPACES),+];

                fn http(http: Http) -> $Session {
                    $Session::Http(http)
                }

                fn as_http(session: &mut $Session) -> Option<&mut Http> {
                    match session {
                        $Session::Http(http) => Some(http),
                        _ => None,
                    }
                }

                fn class(session: &$Session) -> Class<'_> {
                    match session {
                        $Session::Http(http) => http.class(),
                        $($Session::$Variant(session) => <$Gateway>::class(session)),+
                    }
                }

                fn gauge(session: &$Session) -> Option<Gauge> {
                    match session {
                        $Session::Http(_) => None,
                        $($Session::$Variant(_) => <$Gateway as Gateway>::CONNECTIONS),+
                    }
                }

                fn renew(&mut self) {
                    $(if let Some(slot) = &mut self.$field {
                        slot.renew();
                    })+
                }

                fn accept(&self, gateway: u8, port: u8, peer: IpAddr) -> Option<$Session> {
                    $(if gateway == Number::$Variant as u8 {
                        let slot = self.$field.as_ref()?;
                        let session = <$Gateway>::accept(slot.shared(), port, peer)?;
                        return Some($Session::$Variant(session));
                    })+
                    None
                }

                fn claim(
                    &self,
                    incoming: &Incoming<'_, '_>,
                    shared: &Shared,
                ) -> Option<(u8, Claim)> {
                    let mut best: Option<(u8, Claim)> = None;
                    $(if let Some(slot) = &self.$field
                        && let Some(claim) = <$Gateway>::claim(slot.shared(), incoming, shared)
                        && best.as_ref().is_none_or(|(_, best)| best.rank < claim.rank)
                    {
                        best = Some((Number::$Variant as u8, claim));
                    })+
                    best
                }

                fn off(&self, incoming: &Incoming<'_, '_>) -> Option<&'static str> {
                    let (port, path) = (incoming.port, incoming.request.path());
                    $(if self.$field.is_none()
                        && let Some(hint) = <$Gateway>::off(port, path)
                    {
                        return Some(hint);
                    })+
                    None
                }

                fn open(
                    &mut self,
                    (number, claim): (u8, &Claim),
                    incoming: &Incoming<'_, '_>,
                    cx: &mut Context<'_>,
                    orders: &mut Vec<Order<$OrderEnum>>,
                ) -> Result<Opened<$Session>, Reject> {
                    $(if number == Number::$Variant as u8
                        && let Some(slot) = &mut self.$field
                    {
                        let opened = slot.with_context::<Self, _>(cx, orders, |cx| {
                            <$Gateway>::open(claim, incoming, cx)
                        })?;
                        return Ok(match opened {
                            Opened::Answered { keep_alive } => Opened::Answered { keep_alive },
                            Opened::Later(later) => Opened::Later(later),
                            Opened::Session(session) => {
                                Opened::Session($Session::$Variant(session))
                            }
                        });
                    })+
                    Err(Reject::new(404, "this path is no longer served"))
                }

                fn event(
                    &mut self,
                    session: &mut $Session,
                    event: Event<'_>,
                    cx: &mut Context<'_>,
                    orders: &mut Vec<Order<$OrderEnum>>,
                ) -> Flow {
                    match session {
                        $Session::Http(_) => Flow::Stay,
                        $($Session::$Variant(session) => match &mut self.$field {
                            Some(slot) => slot.with_context::<Self, _>(cx, orders, |cx| {
                                <$Gateway>::event(session, event, cx)
                            }),
                            None => Flow::Stay,
                        }),+
                    }
                }

                fn save(&self, conn: ConnId, session: &$Session, out: &mut Vec<u8>) -> bool {
                    match session {
                        $Session::Http(http) => {
                            out.push(0);
                            http.save(out);
                            http.moves()
                        }
                        $($Session::$Variant(session) => {
                            out.push(1 + Number::$Variant as u8);
                            Slot::save(&self.$field, conn, session, out)
                        })+
                    }
                }

                fn load(&mut self, conn: ConnId, from: &mut Saved<'_>) -> Option<$Session> {
                    let number = <u8 as Load>::load(from)?;
                    $(if number == 1 + Number::$Variant as u8 {
                        let slot = self.$field.as_mut()?;
                        return slot.load(conn, from).map($Session::$Variant);
                    })+
                    { number == 0 }.then_some(())?;
                    Http::load(from).map($Session::Http)
                }

                fn give_up(&mut self, conn: ConnId, session: $Session) {
                    match session {
                        $Session::Http(_) => {}
                        $($Session::$Variant(it) => Slot::give_up(&mut self.$field, conn, it),)+
                    }
                }

                fn save_rest(&self, out: &mut Vec<u8>) {
                    $(Slot::save_rest(&self.$field, out);)+
                }

                fn load_rest(&mut self, from: &mut Saved<'_>) -> Option<()> {
                    $(Slot::load_rest(&mut self.$field, from)?;)+
                    Some(())
                }

                fn encode(&self, number: u8, publication: &Publication, out: &mut Vec<u8>) {
                    $(
                        let from = <Self as $crate::Holds<$Gateway>>::FORMS_FROM;
                        let forms = <$Gateway as Gateway>::FORMS.len() as u8;
                        if let Some(form) = number.checked_sub(from)
                            && form < forms
                            && let Some(slot) = &self.$field
                        {
                            return <$Gateway>::encode(slot.shared(), form, publication, out);
                        }
                    )+
                }

                fn encode_delta(
                    &self,
                    number: u8,
                    publication: &Publication,
                    patch: Option<Patch<'_>>,
                    out: &mut Vec<u8>,
                ) {
                    $(
                        let from = <Self as $crate::Holds<$Gateway>>::FORMS_FROM;
                        let forms = <$Gateway as Gateway>::FORMS.len() as u8;
                        if let Some(form) = number.checked_sub(from)
                            && form < forms
                            && let Some(slot) = &self.$field
                        {
                            let own = slot.shared();
                            return <$Gateway>::encode_delta(own, form, publication, patch, out);
                        }
                    )+
                }

                fn encode_personal(
                    session: &mut $Session,
                    publication: &Arc<Publication>,
                    out: &mut Vec<u8>,
                ) {
                    match session {
                        $Session::Http(_) => {}
                        $($Session::$Variant(session) => {
                            <$Gateway>::encode_personal(session, publication, out);
                        })+
                    }
                }

                fn delivered(
                    &self,
                    session: &$Session,
                    publications: &[Arc<Publication>],
                    is_taken: bool,
                    now: Now,
                    shared: &Shared,
                ) {
                    match session {
                        $Session::Http(_) => {}
                        $($Session::$Variant(session) => {
                            if let Some(slot) = &self.$field {
                                let own = slot.shared();
                                <$Gateway>::delivered(
                                    own, session, publications, is_taken, now, shared,
                                );
                            }
                        })+
                    }
                }

                fn carried(
                    &self,
                    publication: &Publication,
                    orders: &mut Vec<Order<$OrderEnum>>,
                ) {
                    $(if let Some(slot) = &self.$field
                        && let Some(order) = <$Gateway>::carried(slot.shared(), publication)
                    {
                        orders.push(Order::Gateway($OrderEnum::$Variant(order)));
                    })+
                }

                fn order<K: Kernel>(
                    &mut self,
                    order: $OrderEnum,
                    host: &mut Host<'_, Self, K>,
                ) {
                    match order {
                        $($OrderEnum::$Variant(order) => if let Some(slot) = &mut self.$field {
                            slot.on_shard(host, |gateway, shard| gateway.order(order, shard));
                        }),+
                    }
                }

                fn mail<K: Kernel>(
                    &mut self,
                    from: Sender,
                    mail: $MailEnum,
                    host: &mut Host<'_, Self, K>,
                ) {
                    match mail {
                        $($MailEnum::$Variant(mail) => if let Some(slot) = &mut self.$field {
                            slot.on_shard(host, |gateway, shard| gateway.mail(from, mail, shard));
                        }),+
                    }
                }

                fn drained(&mut self, session: &$Session, conn: ConnId) {
                    match session {
                        $Session::Http(_) => {}
                        $($Session::$Variant(_) => Slot::drained(&mut self.$field, conn),)+
                    }
                }

                fn closed<K: Kernel>(
                    &mut self,
                    conn: ConnId,
                    session: $Session,
                    host: &mut Host<'_, Self, K>,
                ) {
                    match session {
                        $Session::Http(_) => {}
                        $($Session::$Variant(session) => if let Some(slot) = &mut self.$field {
                            slot.on_shard(host, |it, shard| it.closed(conn, session, shard));
                        }),+
                    }
                }

                fn turn<K: Kernel>(
                    &mut self,
                    frames_max: usize,
                    host: &mut Host<'_, Self, K>,
                ) -> bool {
                    let mut more = false;
                    $(if let Some(slot) = &mut self.$field {
                        more |= slot.on_shard(host, |it, shard| it.turn(frames_max, shard));
                    })+
                    more
                }

                fn tick<K: Kernel>(&mut self, host: &mut Host<'_, Self, K>) {
                    $(if let Some(slot) = &mut self.$field {
                        slot.on_shard(host, |gateway, shard| gateway.tick(shard));
                    })+
                }

                fn deadline(&self) -> Option<Millis> {
                    let deadlines = [$(
                        self.$field.as_ref().and_then(|slot| slot.look().deadline())
                    ),+];
                    deadlines.into_iter().flatten().min()
                }
            }
        };
    };
}
