# A back end for Throng with Rails, in one file: it issues tokens, and publishes on a change.
#   gem install rails puma jwt && ruby app.rb
require "action_controller/railtie"
require "jwt"
require "net/http"
require "rack/handler/puma"

SECRET = ENV.fetch("THRONG_SECRET", "an-example-secret-that-everyone-knows")
KEY = ENV.fetch("THRONG_KEY", "an-example-key-that-everyone-knows")
API = ENV.fetch("THRONG_API", "http://127.0.0.1:8001")
CLIENTS = ENV.fetch("THRONG_CLIENTS", "127.0.0.1:8000")
EXAMPLES = ENV.fetch("EXAMPLES", File.expand_path("..", __dir__))
CHAT = ENV.fetch("CHAT", File.join(EXAMPLES, "chat", "dist"))
PORT = ENV.fetch("PORT", "3000").to_i

STAFF = %w[ann carol].freeze
SCORES = { "reds" => 0, "blues" => 0 }
LOCK = Mutex.new

# A folder of pages, with index.html for its own address.
def pages(folder)
  nothing = ->(_env) { [404, {}, []] }
  Rack::Static.new(nothing, urls: [""], root: folder, index: "index.html")
end

module Throng
  def self.publish(channel, data)
    # The key makes a repeated request harmless.
    body = { channel: channel, data: data, idempotency_key: SecureRandom.uuid }
    headers = { "Content-Type" => "application/json", "X-API-Key" => KEY }
    answer = Net::HTTP.post(URI("#{API}/api/publish"), body.to_json, headers)
    error = JSON.parse(answer.body)["error"]
    raise "publish: #{answer.code} #{error}" if error || answer.code != "200"
  end
end

class BackEnd < Rails::Application
  config.load_defaults 7.0
  config.eager_load = false
  config.secret_key_base = SECRET
  config.hosts.clear
  config.logger = Logger.new($stderr)
  routes.append do
    get "/token", to: "realtime#token"
    post "/messages", to: "realtime#message"
    get "/scores", to: "realtime#scores"
    post "/scores", to: "realtime#score"
    get "/settings", to: "realtime#settings"
    mount pages(CHAT), at: "/chat"
    mount pages(File.join(EXAMPLES, "board")), at: "/board"
  end
end

class RealtimeController < ActionController::API
  # A real back end reads the user from its own session: current_user.
  def token
    user, channel = params[:user], params[:channel]
    return head :unauthorized if user.blank?
    return head :forbidden if channel && !(channel == "$team:staff" && STAFF.include?(user))

    claims = { sub: user, exp: 10.minutes.from_now.to_i, channel: channel }.compact
    render plain: JWT.encode(claims, SECRET, "HS256")
  end

  def message
    channel, user, text = params.values_at(:channel, :user, :text)
    may_write = channel == "room:general" || (channel == "$team:staff" && STAFF.include?(user))
    return head :forbidden unless may_write
    return head :bad_request unless text.is_a?(String) && text.present? && text.length <= 500

    # A real one stores the message first.
    Throng.publish(channel, { id: SecureRandom.uuid, user: user, text: text })
    head :no_content
  end

  def scores
    render json: SCORES
  end

  def score
    team, points = params.values_at(:team, :points)
    return head :bad_request unless SCORES.key?(team) && points.is_a?(Integer)

    LOCK.synchronize do
      SCORES[team] += points
      Throng.publish("board:scores", SCORES)
    end
    render json: SCORES
  end

  def settings
    render json: { clients: CLIENTS }
  end
end

BackEnd.initialize!
puts "http://127.0.0.1:#{PORT}/"
Rack::Handler::Puma.run(BackEnd, Host: "127.0.0.1", Port: PORT, Silent: true)
